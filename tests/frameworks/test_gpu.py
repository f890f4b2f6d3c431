"""What three frameworks do on a GPU, and where there is none."""

import json

import in_framework
import pytest
from conftest import ROOT, snakemake

from dlperf import frameworks
from dlperf.measure import host

START = """
try:
    frameworks.load(run.framework).start(run)
except Unsupported as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("pytorch", "built without CUDA"),
        ("tensorflow", "finds no GPU"),
        ("jax", "finds no GPU"),
    ],
)
def test_a_build_without_gpus_is_unsupported_when_it_starts(framework, words, environments):
    run = in_framework.rank(framework, device="cuda")
    said = in_framework.printed(run, START, environments / f"{framework}.cpu")
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_the_fast_compiler_is_the_default_on_a_gpu():
    found = {each: frameworks.load(each).DEFAULT_COMPILER for each in ("pytorch", "tensorflow")}
    assert found == {
        "pytorch": {"cpu": "none", "cuda": "inductor"},
        "tensorflow": {"cpu": "none", "cuda": "xla"},
    }


@pytest.mark.parametrize(
    ("changes", "captured"),
    [
        ({}, True),
        ({"compiler": "none"}, False),
        ({"device": "cpu"}, False),
        ({"ranks": 2}, False),
        ({"parallel": {"accumulation": 2}}, False),
    ],
)
def test_a_whole_step_of_one_rank_is_captured_in_cuda_graphs(changes, captured):
    from dlperf.frameworks.pytorch.process import cuda_graphs

    run = in_framework.rank("pytorch", **{"compiler": "inductor", "device": "cuda", **changes})
    assert cuda_graphs(run) == captured


def test_variables_that_the_user_set_are_kept(monkeypatch):
    def of(framework, **changes):
        run = in_framework.rank(framework, device="cuda", **changes)
        return frameworks.load(framework).environment(run)

    for name in ("XLA_FLAGS", "XLA_CLIENT_MEM_FRACTION", "TF_GPU_THREAD_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    assert "XLA_FLAGS" not in of("jax")
    ours = of("jax", ranks=2)["XLA_FLAGS"]
    assert of("jax")["XLA_PYTHON_CLIENT_MEM_FRACTION"] == ".92"
    assert of("tensorflow")["TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"] == "1"
    assert of("tensorflow")["CUDA_CACHE_MAXSIZE"] == "4294967296"
    assert of("tensorflow")["TF_GPU_THREAD_COUNT"] == "2"

    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/own")
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", ".5")
    monkeypatch.setenv("TF_GPU_THREAD_COUNT", "4")
    assert "XLA_FLAGS" not in of("jax")  # it stays as the user's environment has it
    assert of("jax", ranks=2)["XLA_FLAGS"] == ours + " --xla_dump_to=/tmp/own"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in of("jax")
    assert of("tensorflow")["TF_GPU_THREAD_COUNT"] == "4"


WINDOW = """
import torch
framework = frameworks.load("pytorch")
framework.start(run)
work = workloads.load(run.workload, "pytorch").training(run)
work.weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))
mark = framework.step_timer(run).mark
for _ in range(run.warmup_steps):
    handle = work.step()
work.wait()
work.batches.fill()
if run.cuda:
    torch.cuda.set_sync_debug_mode("error")
handles = []
mark()
for _ in range(run.measured_steps):
    handles.append(work.step())
    mark()
if run.cuda:
    torch.cuda.set_sync_debug_mode("default")
work.wait()
print(json.dumps([work.loss(handle) for handle in handles]))
work.batches.close()
"""


@pytest.mark.parametrize("compiler", ["none", "inductor"])
@pytest.mark.parametrize("precision", ["fp32", "amp", "amp_fp16"])
@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_nothing_in_the_window_waits_for_the_gpu(workload, precision, compiler, sample_data, prose):
    """PyTorch raises where an operation waits; each loss outlives the steps after its own."""
    if not host.visible_gpus():
        pytest.skip("there is no GPU on this machine")
    snakemake("--", "results/environments/pytorch.cuda/env.json")
    data = {"resnet50": sample_data, "bert": prose}[workload]
    changes = (
        {"image_size": 64, "fold": 0}
        if workload == "resnet50"
        else {"sequence_length": 32, "clip": True, "padded_vocabulary": 0}
    )
    run = in_framework.rank(
        "pytorch",
        workload,
        device="cuda",
        precision=precision,
        compiler=compiler,
        data="sample",
        data_dir=str(data),
        dimensions=changes,
        warmup_steps=8,
        measured_steps=8,
    )
    environment = ROOT / "results/environments/pytorch.cuda"
    losses = json.loads(in_framework.printed(run, WINDOW, environment))
    assert len(set(losses)) == 8
