"""What three frameworks do on a GPU, and where there is none."""

import json
import os
import subprocess
import sys
import types

import in_framework
import pytest
from conftest import ROOT, snakemake

from dlperf import frameworks
from dlperf.measure import by_hand, host

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
    found = {each: frameworks.of(each).default_compiler for each in ("pytorch", "tensorflow")}
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
        ({"layout": {"accumulation": 2}}, False),
    ],
)
def test_a_whole_step_of_one_rank_is_captured_in_cuda_graphs(changes, captured):
    from dlperf.frameworks.pytorch.process import cuda_graphs

    run = in_framework.rank("pytorch", **{"compiler": "inductor", "device": "cuda", **changes})
    assert cuda_graphs(run) == captured


class Allocator:
    """A stand-in for `torch.cuda`: a peak that a reset brings to what is allocated now."""

    def __init__(self):
        self.peak, self.now = 900, 300

    def max_memory_allocated(self):
        return self.peak

    def reset_peak_memory_stats(self):
        self.peak = self.now


@pytest.mark.parametrize("framework", ["pytorch", "megatron", "deepspeed"])
def test_the_peak_of_memory_is_the_windows_and_that_of_warm_up_is_kept(framework, monkeypatch):
    cuda = Allocator()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    run = in_framework.rank("pytorch", device="cuda", compiler="none")
    assert frameworks.reset_peak(framework, run) == 900
    assert cuda.peak == 300


def test_with_cuda_graphs_the_peak_goes_on_as_replays_allocate_nothing(monkeypatch):
    cuda = Allocator()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    run = in_framework.rank("pytorch", device="cuda", compiler="inductor")
    assert frameworks.reset_peak("pytorch", run) is None and cuda.peak == 900
    on_a_cpu = in_framework.rank("pytorch", compiler="none")
    assert frameworks.reset_peak("pytorch", on_a_cpu) is None and cuda.peak == 900


def test_other_frameworks_count_the_peak_of_the_whole_process():
    run = in_framework.rank("jax", device="cuda")
    assert frameworks.reset_peak("jax", run) is None


def test_jax_says_what_was_in_use_and_not_the_pool_that_it_reserves(monkeypatch):
    said = {"bytes_in_use": 5, "peak_bytes_in_use": 7, "pool_bytes": 900, "bytes_limit": 920}
    device = types.SimpleNamespace(memory_stats=lambda: said)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(local_devices=lambda: [device]))
    run = in_framework.rank("jax", device="cuda")
    memory = frameworks.load("jax").memory(run)
    assert memory == {"device_peak_bytes": 7, "device_total_peak_bytes": None}


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
    assert of("tensorflow")["TF_GPU_THREAD_COUNT"] == "2"

    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/own")
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", ".5")
    monkeypatch.setenv("TF_GPU_THREAD_COUNT", "4")
    assert "XLA_FLAGS" not in of("jax")  # it stays as the user's environment has it
    assert of("jax", ranks=2)["XLA_FLAGS"] == ours + " --xla_dump_to=/tmp/own"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in of("jax")
    assert of("tensorflow")["TF_GPU_THREAD_COUNT"] == "4"


def losses(workload, environment, **values) -> list:
    """What benchmarks/waits.py prints of a case, under the environment's own Python."""
    document = by_hand.document({"workload": workload, "framework": "pytorch", **values})
    built = json.loads((environment / "env.json").read_text())
    command = [ROOT / built["interpreter"], ROOT / "benchmarks/waits.py"]
    done = subprocess.run(
        [*command, "--case", json.dumps(document)],
        cwd=ROOT,
        env={**os.environ, **built.get("environ", {})},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("compiler", ["none", "inductor"])
@pytest.mark.parametrize("precision", ["fp32", "amp", "amp_fp16"])
@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_nothing_in_the_window_waits_for_the_gpu(workload, precision, compiler, sample_data, prose):
    """PyTorch raises where an operation waits; each loss outlives the steps after its own."""
    if not host.visible_gpus():
        pytest.skip("no GPU; tests/gpu/test_on_null_device.py drives these steps without one")
    snakemake("--", "results/environments/pytorch.cuda/env.json")
    data = {"resnet50": sample_data, "bert": prose}[workload]
    size = {"resnet50": {"image_size": 64}, "bert": {"sequence_length": 32}}[workload]
    found = losses(
        workload,
        ROOT / "results/environments/pytorch.cuda",
        device="cuda",
        precision=precision,
        compiler=compiler,
        batch_size=2,
        data="sample",
        data_dir=str(data),
        warmup_steps=8,
        measured_steps=8,
        **size,
    )
    assert len(set(found)) == 8


def test_the_steps_of_that_check_run_on_a_cpu_too(environments):
    small = {"image_size": 32, "batch_size": 2, "warmup_steps": 1, "measured_steps": 3}
    found = losses("resnet50", environments / "pytorch.cpu", device="cpu", **small)
    assert len(set(found)) == 3
