"""Megatron-LM: its calls fit the installed megatron-core, CUDA's names on a CPU, norms at once."""

import json

import in_framework
import pytest

CALLS = '''
import ast, importlib, inspect
from dlperf.frameworks import megatron
megatron.start(run)
from megatron.core.distributed import DistributedDataParallel
from megatron.core.optimizer import ChainedOptimizer
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.pipeline_parallel import schedules
from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

MODULES = ["frameworks.megatron." + name for name in
           ("process", "cpu", "foreach", "transformer", "parallel", "training")]
MODULES = ["dlperf." + name for name in (*MODULES, "workloads.gpt.megatron")]
#: What our code calls an object -> its class; a function under the name of a variable.
OBJECTS = {
    "network": DistributedDataParallel,
    "optimizer": ChainedOptimizer,
    "self._optimizer": DistributedOptimizer,
    "tensor_parallel.get_cuda_rng_tracker()": CudaRNGStatesTracker,
}
VARIABLES = {
    "forward_backward": [schedules.forward_backward_no_pipelining,
                         schedules.forward_backward_pipelining_without_interleaving],
}

def named(tree, module):
    """What the module's names stand for, those that functions import too."""
    found = dict(vars(module))
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module.startswith("megatron"):
            there = importlib.import_module(each.module)
            for alias in each.names:
                name = alias.asname or alias.name
                found[name] = getattr(there, alias.name, None) or importlib.import_module(
                    each.module + "." + alias.name)
    return found

def called(function, names):
    """(the functions that an expression stands for, how many arguments come before its own)."""
    if isinstance(function, ast.Name):
        return VARIABLES.get(function.id) or [names.get(function.id)], 0
    if not isinstance(function, ast.Attribute):
        return [], 0
    of = ast.unparse(function.value)
    if of in OBJECTS:
        return [getattr(OBJECTS[of], function.attr)], 1
    first, *rest = of.split(".") + [function.attr]
    object = names.get(first)
    for attribute in rest:
        object = getattr(object, attribute, None)
    return [object], 0

def literal_keys(tree, name):
    """The keys of dictionaries that a name is set to: what `**name` passes."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Dict):
            if [target.id for target in each.targets if isinstance(target, ast.Name)] == [name]:
                yield from (ast.literal_eval(key) for key in each.value.keys)

def bound(tree, names):
    """Bind every call of megatron-core's; yields the names of what is called."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        functions, first = called(call.func, names)
        for function in functions:
            if not (getattr(function, "__module__", None) or "").startswith("megatron."):
                continue
            given = {}
            for keyword in call.keywords:
                passed = [keyword.arg] if keyword.arg else literal_keys(tree, keyword.value.id)
                given.update(dict.fromkeys(passed))
            inspect.signature(function).bind(*[None] * (first + len(call.args)), **given)
            yield function.__name__

found = set()
for name in MODULES:
    module = importlib.import_module(name)
    tree = ast.parse(inspect.getsource(module))
    found.update(bound(tree, named(tree, module)))
training = importlib.import_module("dlperf.frameworks.megatron.training")
for wrong in ("OptimizerConfig(clip_gard=1.0)", "network.start_param_sync(forced=True)",
              "forward_backward(1)", "optimizer.step(1)"):
    try:
        list(bound(ast.parse(wrong), vars(training)))
    except TypeError:
        continue
    raise AssertionError(wrong + " binds")
print(json.dumps(sorted(found)))
'''
#: What must be among the calls that were bound.
BOUND = {
    "DistributedDataParallel",
    "DistributedDataParallelConfig",
    "Float16Module",
    "GPTModel",
    "OptimizerConfig",
    "OptimizerParamScheduler",
    "TransformerConfig",
    "_get_model_param_range_map",
    "fork",
    "forward_backward_no_pipelining",
    "forward_backward_pipelining_without_interleaving",
    "get_forward_backward_func",
    "get_gpt_layer_local_spec",
    "get_megatron_optimizer",
    "initialize_model_parallel",
    "model_parallel_cuda_manual_seed",
    "start_param_sync",
    "step",
    "zero_grad",
    "zero_grad_buffer",
}


def test_every_call_fits_the_signature_of_the_installed_megatron_core(environments):
    run = in_framework.rank("megatron", "gpt")
    found = json.loads(in_framework.printed(run, CALLS, environments / "megatron.cpu"))
    assert set(found) >= BOUND


NAMES = """
import torch
from dlperf.frameworks import megatron

megatron.start(run)
from megatron.core import tensor_parallel

assert torch.zeros(2, device="cuda").device.type == "cpu"
assert torch.empty(2, device=torch.cuda.current_device()).device.type == "cpu"
weight = torch.nn.Parameter(torch.ones(2))
assert weight.type() == "torch.cuda.FloatTensor" and weight.cuda() is weight
assert weight.bfloat16().type() == "torch.cuda.BFloat16Tensor"
assert weight.type(torch.float64).dtype == torch.float64  # a cast stays one
assert weight.to("cpu").device.type == "cpu"

def drawn(seed):
    tensor_parallel.model_parallel_cuda_manual_seed(seed)
    first = torch.rand(3).tolist()
    with tensor_parallel.get_cuda_rng_tracker().fork():
        own = torch.rand(3).tolist()
    return first, own, torch.rand(3).tolist()

first, own, then = drawn(5)
torch.manual_seed(5)
assert first + then == torch.rand(6).tolist()  # as if nothing had been drawn in between
assert own not in (first, then) and drawn(5) == (first, own, then) != drawn(6)
print(megatron.parity(run)["device_names"])
"""


def test_cudas_names_stand_for_the_cpu_and_random_numbers_stay_apart(environments):
    run = in_framework.rank("megatron", "gpt")
    found = in_framework.printed(run, NAMES, environments / "megatron.cpu")
    assert found == "CUDA's stand for the CPU\n"


AT_ONCE = """
import torch
from dlperf.frameworks import megatron

megatron.start(run)
from megatron.core import utils
from megatron.core.optimizer import clip_grads
from dlperf.frameworks.megatron import foreach

torch.manual_seed(0)
tensors = [torch.randn(3, 5), torch.randn(7), torch.randn(2, 2, 2)]
ours, _ = foreach.norm_of_all(1, None, [tensors], False)
theirs, _ = utils.local_multi_tensor_l2_norm(1, None, [tensors], False)
torch.testing.assert_close(ours, theirs)
assert ours.shape == (1,)
for dtype in (torch.float32, torch.bfloat16):
    one, other = ([torch.zeros_like(each, dtype=dtype) for each in tensors] for _ in range(2))
    foreach.scale_all(1, None, [tensors, one], 0.3)
    utils.local_multi_tensor_scale(1, None, [tensors, other], 0.3)
    torch.testing.assert_close(one, other, rtol=0, atol=0)
expected = [each * 0.3 for each in tensors]
foreach.scale_all(1, None, [tensors, tensors], 0.3)
torch.testing.assert_close(tensors, expected, rtol=0, atol=0)

foreach.take_the_place_of_loops()
assert clip_grads.l2_norm_impl is foreach.norm_of_all
clip_grads.l2_norm_impl = apex = lambda *_: None  # what is faster stays
foreach.take_the_place_of_loops()
assert clip_grads.l2_norm_impl is apex
print("the same")
"""


def test_norms_and_scaling_of_all_tensors_are_megatrons_own(environments):
    run = in_framework.rank("megatron", "gpt")
    found = in_framework.printed(run, AT_ONCE, environments / "megatron.cpu")
    assert found == "the same\n"


START = """
from dlperf import frameworks
from dlperf.contract.run import Unsupported
try:
    frameworks.load("megatron").start(run)
except Unsupported as error:
    print(error)
"""


def test_without_a_gpu_the_start_says_so(environments):
    run = in_framework.rank("megatron", "gpt", device="cuda", gpus=["0"])
    found = in_framework.printed(run, START, environments / "megatron.cpu")
    assert "is built without CUDA" in found or "finds no GPU" in found


TRAINED = """
import numpy as np
from dlperf.frameworks import megatron
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt import megatron as page

facts.VOCABULARY = 64
megatron.start(run)
work = page.training(run)
work.weights.write(workloads.Initial("gpt", run.dimensions, run.seed))
start = {name: array.copy() for name, array in work.weights.read()}
losses = [work.loss(work.step()) for _ in range(3)]
moved = {name for name, array in work.weights.read() if not np.array_equal(array, start[name])}
assert set(start) == set(facts.parameters(run.dimensions)) == moved
assert work.parameters == sum(array.size for array in start.values())
assert all(3.5 < loss < 4.8 for loss in losses), losses
print(json.dumps(work.parity))
"""


@pytest.mark.parametrize("precision", ["fp32", pytest.param("amp", marks=pytest.mark.full)])
def test_it_trains_and_says_what_it_had(precision, environments):
    run = in_framework.rank("megatron", "gpt", precision=precision)
    parity = json.loads(in_framework.printed(run, TRAINED, environments / "megatron.cpu"))
    narrow = precision == "amp"
    assert parity["compute_dtype"] == ("bfloat16" if narrow else "float32")
    assert parity["master_weights"] == ("float32" if narrow else "none")
    assert parity["cross_entropy_loss_fusion"] is narrow
    kind = "Float16OptimizerWithFloat16Params" if narrow else "FP32Optimizer"
    assert parity["megatron_optimizer"] == kind
    assert parity["schedule"] == "forward_backward_no_pipelining"
    assert parity["optimizer"] == "AdamW, torch.optim.adamw"
