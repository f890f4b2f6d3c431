"""What of the GPU's side of five frameworks runs without one: refusals, loss scales, the wait."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from gpu_runs import a_run

from dlperf import frameworks
from dlperf.contract.run import Run

ROOT = Path(__file__).resolve().parents[2]

START = """
from dlperf import frameworks
from dlperf.contract.run import Unsupported
try:
    frameworks.load(run.framework).start(run)
except Unsupported as error:
    print("unsupported:", error)
"""

# One trained number, 1, with gradient 3 and learning rate 1, at the run's loss scale: what becomes
# of it. The scale of an overflowing one is halved.
MXNET = """
import mxnet as mx
from mxnet import gluon
from mxnet.contrib import amp
from dlperf.frameworks.mxnet import training

amp.init(target_dtype="float16")
network = gluon.nn.Block()
network.weight = network.params.get("weight", shape=(1,), init="ones")
network.initialize()
trainer = training.trainer(run, network, mx.optimizer.SGD(learning_rate=1, wd=0))
with mx.autograd.record():
    with amp.scale_loss(3 * network.weight.data(), trainer) as larger:
        larger.backward()
trainer.step(1)
print("weight:", network.weight.data().asscalar())
"""

TENSORFLOW1 = """
import tensorflow as tf
from dlperf.frameworks.tensorflow1 import training

with tf.Graph().as_default(), tf.Session() as session:
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    update, _ = training.updates(run, tf.train.GradientDescentOptimizer(1.0), 3 * weight)
    session.run(tf.global_variables_initializer())
    session.run(update)
    print("weight:", session.run(weight))
"""

ONEFLOW = """
import oneflow as flow
from dlperf.frameworks.oneflow import training

network = training.Linear(1, 1)
optimizer = flow.optim.SGD(network.parameters(), lr=1.0)
graph = training.TrainingGraph(run, network, None, optimizer)
print("scale:", graph._grad_scaler._init_scale)
"""

MINDSPORE = """
import mindspore as ms
from mindspore import nn
from dlperf.contract.run import Run
from dlperf.workloads import inputs as loaders
from dlperf.frameworks.mindspore import training

class Batches:
    pooled, on_device = False, False
    def next(self):
        return ()

training.open_batches = lambda *given: Batches()
ms.set_context(mode=ms.PYNATIVE_MODE)

class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor([1.0]), name="weight")
    def construct(self):
        return (3 * self.weight).sum()

class Weights:
    def count(self):
        return 1

network = Network()
optimizer = nn.SGD(network.trainable_params(), learning_rate=1.0)
work = training.train(run, network, lambda network: network(), optimizer, Weights(), lambda run: ())
work.step()
print("weight:", float(network.weight.asnumpy()[0]), work.parity["loss_scaling"])
"""

ATTENTION = """
import math
import numpy as np, paddle
import paddle.nn.functional as F
from dlperf.frameworks.paddlepaddle.transformer import attention

random = np.random.RandomState(0)
for dtype, off in (("float32", 1e-6), ("float64", 1e-15)):
    q, k, v = (paddle.to_tensor(random.randn(2, 7, 12, 64), dtype) for _ in range(3))
    bias = paddle.to_tensor([[0.0] * 7, [0.0] * 4 + [-math.inf] * 3], dtype).reshape([2, 1, 1, 7])
    ours = attention(q, k, v, attn_mask=bias, dropout_p=0.0)
    paddles = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=0.0)
    np.testing.assert_allclose(ours.numpy(), paddles.numpy(), rtol=0, atol=10 * off)
# sums of 168 rows of weights, half of which is dropped: their mean is 0.05 off, by chance
dropped = attention(q, k, paddle.ones_like(v), attn_mask=bias, dropout_p=0.5)
assert 0.7 < dropped.mean().item() < 1.3 and dropped.std().item() > 0.1
print("the same")
"""

CHOSEN = """
from dlperf.certify import formulas

print(formulas.choose("cpu"))
try:
    formulas.choose("cuda")
except formulas.Unavailable as reason:
    print(reason)
"""

VERSIONS = """
import paddle
from dlperf.frameworks.paddlepaddle import process, training

for number in (2, 3):
    process.version = training.version = lambda: number
    asked = training.fusions(run)
    assert all(hasattr(paddle.static.BuildStrategy, name) for name in asked), asked
    print(number, type(process.step_timer(run)).__name__, len(asked))
"""

WAIT = """
import numpy as np
from dlperf.contract.run import Run
from dlperf.workloads.resnet50 import facts, tensorflow1 as page
from dlperf.frameworks import tensorflow1

tensorflow1.start(run)
work = page.training(run)
random = np.random.RandomState(0)
tensors = facts.parameters(run.dimensions)
start = {name: 0.05 * random.randn(*each.shape).astype("float32") for name, each in tensors.items()}
work.weights.write(start)
work.step()
found = work.wait()
after = dict(work.weights.read())
smallest = min(after, key=lambda name: after[name].size)
size = after[smallest].size
sums = [float(a.sum()) for name, a in after.items() if a.size == size]
assert any(abs(found - each) < 1e-4 for each in sums), (found, sums)
assert not np.array_equal(after[smallest], start[smallest])
print("waited")
"""


def out(code: str, run: Run, environments: Path, scratch: Path) -> str:
    """What the framework's own Python prints of `code`, which knows the run."""
    spec = scratch / "run.json"
    run.save(spec)
    head = f"from dlperf.contract.run import Run\nrun = Run.load({str(spec)!r})\n"
    environ = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"), CUDA_VISIBLE_DEVICES="")
    environ |= frameworks.load(run.framework).environment(run)
    python = environments / f"{run.framework}.cpu" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", head + code], env=environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def on_gpu(framework: str, environments: Path, **changes) -> Run:
    python = environments / f"{framework}.cpu" / "bin" / "python"
    return a_run(framework, interpreter=str(python), **changes)


@pytest.mark.parametrize(
    ("framework", "message"),
    [
        ("mxnet", "this build of MXNet has no CUDA"),
        ("paddlepaddle", "this build of PaddlePaddle has no CUDA"),
        ("oneflow", "OneFlow sees no GPU"),  # its one build has CUDA
        ("mindspore", "this build of MindSpore has no CUDA"),
        ("tensorflow1", "this build of TensorFlow 1 has no CUDA"),
    ],
)
def test_without_a_gpu_the_start_says_so(framework, message, environments, tmp_path):
    run = on_gpu(framework, environments)
    assert f"unsupported: {message}" in out(START, run, environments, tmp_path)


@pytest.mark.parametrize(
    ("framework", "code"),
    [("mxnet", MXNET), ("tensorflow1", TENSORFLOW1), ("mindspore", MINDSPORE)],
)
def test_the_loss_is_scaled_as_the_run_says(framework, code, environments, tmp_path):
    def weight_after(scale: float) -> float:
        run = on_gpu(framework, environments, precision="amp", loss_scale=scale)
        return float(re.search(r"weight: (\S+)", out(code, run, environments, tmp_path))[1])

    assert weight_after(1.0) == -2
    assert weight_after(2.0**16) == -2
    # three times this is more than float32 holds, and the step is left out
    assert weight_after(2.0**127) == 1


def test_oneflows_graph_begins_with_the_runs_loss_scale(environments, tmp_path):
    run = on_gpu("oneflow", environments, precision="amp", compiler="graph", loss_scale=2.0)
    assert "scale: 2.0" in out(ONEFLOW, run, environments, tmp_path)


def test_paddlepaddles_attention_by_products_is_its_own(environments, tmp_path):
    run = on_gpu("paddlepaddle", environments, device="cpu", capability="", gpus=[])
    assert "the same" in out(ATTENTION, run, environments, tmp_path)


def test_a_replay_says_where_it_is_computed_and_where_it_cannot_be(environments, tmp_path):
    run = on_gpu("pytorch", environments, device="cpu", capability="", gpus=[])
    said = out(CHOSEN, run, environments, tmp_path)
    assert said.splitlines()[-2:] == ["cpu, fp64", "PyTorch finds no GPU to replay on"]


def test_paddlepaddle_2_has_fusions_and_no_events(environments, tmp_path):
    run = on_gpu("paddlepaddle", environments, compiler="static", precision="amp")
    found = out(VERSIONS, run, environments, tmp_path).splitlines()
    assert found[-2:] == ["2 HostTimer 3", "3 EventTimer 0"]


def test_tensorflow1_waits_for_the_updates(environments, tmp_path):
    run = on_gpu("tensorflow1", environments, device="cpu", capability="", gpus=[])
    assert "waited" in out(WAIT, run, environments, tmp_path)
