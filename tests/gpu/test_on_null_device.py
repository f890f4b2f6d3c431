"""PyTorch's steps, driven on a CUDA device that does nothing, on a machine without a GPU.

What the host decides is as on a card: what it launches, in which types, layouts and backends, what
it waits for, what it captures, exchanges and keeps. Nothing is computed, so times and numbers are
not in it. Networks are as short as a claim allows; those of FLOPs and memory have all layers.
"""

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
import spot
import torch_checks
import torch_device
import torch_steps
from conftest import ROOT, SCRIPTS
from fake_nvml import nvidia_smi
from gpu_needs import needed
from gpu_packages import PYTORCH
from gpu_steps import Step
from torch_steps import Device, DriveError, Driven

from dlperf.contract import draws
from dlperf.measure import by_hand, host

pytestmark = pytest.mark.full

#: Of each workload a network that runs in seconds, with each kind of layer.
SHORT = {
    "resnet50": {"layers": 2, "dimensions": {"image_size": 64}},
    "bert": {"layers": 2},
    "wide_deep": {"dimensions": {"layers": 2}},
    "electra": {"layers": 1},
    "electra_squad": {"layers": 1},
    "gpt": {"dimensions": {"layers": 2, "sequence_length": 128}},
    "insightface": {"dimensions": {"backbone": "y1"}},
}
COMPILERS = ("none", "inductor")
TENSORS = {"tensor_parallel": 2}
PARTIAL = {"head": "partial"}
STAGES = {"pipeline_parallel": 2, "accumulation": 4}


def short(workload, precision="amp", compiler="none", devices=1, control="", **changes):
    own = SHORT[workload]
    return Step(
        workload,
        precision,
        devices,
        dimensions={**own.get("dimensions", {}), **changes.pop("dimensions", {})},
        layers=own.get("layers", 0),
        batch_size=8,
        control=control,
        compiler=compiler,
        **changes,
    )


STEPS = [
    *(
        short(workload, precision)
        for workload in ("resnet50", "bert")
        for precision in ("amp", "amp_fp16", "tf32", "fp32")
    ),
    *(short(workload) for workload in ("wide_deep", "electra", "electra_squad", "gpt")),
    short("insightface"),
    *(short(workload, compiler="inductor") for workload in ("resnet50", "bert")),
    *(short(workload, devices=2) for workload in SHORT),
    short("bert", compiler="inductor", devices=2),
    short("insightface", devices=2, dimensions={"head": "model"}),
    short("insightface", devices=2, dimensions=PARTIAL),
    short("wide_deep", devices=2, dimensions={"tables": "sharded"}),
    short("resnet50", scenario="infer"),
    short("resnet50", layout={"accumulation": 3}),
    short("gpt", layout={"activation_checkpointing": True}),
    *(short("gpt", devices=2, layout={"zero_stage": stage}) for stage in (1, 2, 3)),
    *(short("gpt", precision, devices=2, layout=TENSORS) for precision in ("amp", "fp32")),
    short("gpt", devices=2, layout={**TENSORS, "activation_checkpointing": True}),
    *(short("gpt", devices=2, layout=STAGES, rank=rank) for rank in (0, 1)),
    *(short("gpt", devices=8, layout={**TENSORS, **STAGES}, rank=rank) for rank in (0, 7)),
]


@pytest.fixture(scope="session")
def environ(request) -> dict[str, str]:
    """Variables of a process that has the null device. Where packages cannot be had: a failure
    where CI=true, else the tests are skipped."""
    return needed(request, lambda: torch_steps.environ(torch_device.library(PYTORCH.python())))


@pytest.fixture(scope="session")
def device(environ) -> Iterator[Device]:
    made = Device()
    yield made
    made.close()


@pytest.fixture(scope="session")
def driven(device) -> Callable[[Step], Driven]:
    """What the device was told of a step, of which a session drives each once."""
    there: dict[str, Driven] = {}

    def driven_once(step: Step) -> Driven:
        name = json.dumps(dataclasses.asdict(step), sort_keys=True)
        if name not in there:
            there[name] = device.drive(step)
        return there[name]

    return driven_once


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_keeps_to_its_limits(step, driven):
    found = torch_checks.problems(driven(step))
    assert not found


#: Wrong steps, and the check that must refuse each, which the same step without it passes.
CONTROLS = [
    ("host", short("resnet50", control="item")),
    ("host", short("resnet50", control="pageable copy")),
    ("host", short("resnet50", control="growing")),
    ("host", short("resnet50", "amp_fp16", control="unfused update")),
    ("host", short("bert", compiler="inductor", control="host count")),
    ("types", short("resnet50", control="wide products")),
    ("types", short("bert", control="wide dense")),
    ("types", short("bert", compiler="inductor", control="wide dense")),
    ("layout", short("resnet50", control="channels first")),
    ("tf32", short("resnet50", "fp32", control="tf32")),
    ("tf32", short("bert", "fp32", control="tf32 products")),
    ("exact", short("bert", "tf32", control="exact products")),
    ("launches", short("resnet50", control="loop over tensors")),
    ("attention", short("bert", control="separate attention")),
    ("graphs", short("bert", compiler="inductor", control="no graphs")),
    ("exchanges", short("bert", devices=2, control="one by one")),
    ("gradients", short("bert", devices=2, control="narrow exchange")),
    ("waiting", short("bert", devices=2, control="after backward")),
    ("split", short("gpt", devices=2, layout=TENSORS, control="gathered inner")),
    ("types", short("gpt", devices=2, layout=TENSORS, control="wide dense")),
    ("host", short("gpt", devices=2, layout=TENSORS, control="item")),
    ("state", short("gpt", devices=2, layout=TENSORS, control="keeping")),
    ("split", short("gpt", devices=2, layout=STAGES, control="narrow activations")),
    ("split", short("gpt", devices=2, layout=STAGES, control="larger micro steps")),
    ("split", short("gpt", devices=2, layout=STAGES, control="untied table")),
    ("split", short("gpt", devices=2, layout=STAGES, rank=1, control="untied table")),
    ("host", short("gpt", devices=2, layout=STAGES, rank=1, control="synchronized stages")),
    ("attention", short("gpt", devices=2, layout=STAGES, control="separate attention")),
    ("gradients", short("gpt", devices=4, layout=TENSORS, control="replicas apart")),
    ("exchanges", short("gpt", devices=4, layout=TENSORS, control="tensor by tensor")),
    # layers enough for a few buckets
    (
        "waiting",
        short(
            "gpt", devices=4, layout=TENSORS, dimensions={"layers": 8}, control="averaged behind"
        ),
    ),
    ("split", short("gpt", devices=2, layout={"zero_stage": 1}, control="unshared updates")),
    ("state", short("gpt", devices=2, layout={"zero_stage": 1}, control="unshared updates")),
    ("exchanges", short("gpt", devices=2, layout={"zero_stage": 1}, control="tensors apart")),
    ("state", short("gpt", devices=2, layout=STAGES, rank=1, control="kept scores")),
    ("host", short("insightface", devices=2, dimensions=PARTIAL, control="assigned keys")),
    ("split", short("gpt", devices=2, layout={"zero_stage": 3}, control="gathered once")),
    ("split", short("gpt", devices=2, layout={"zero_stage": 3}, control="gathered at once")),
    ("split", short("gpt", devices=2, layout={"zero_stage": 3}, control="narrow gathers")),
    ("host", short("gpt", devices=2, layout={"zero_stage": 3}, control="read norm")),
]


@pytest.mark.parametrize(("kind", "step"), CONTROLS, ids=lambda each: getattr(each, "name", each))
def test_a_wrong_step_is_refused(kind, step, driven):
    honest = dataclasses.replace(step, control="")
    assert kind not in set(torch_checks.problems(driven(honest)))
    assert kind in torch_checks.problems(driven(step))


@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_a_whole_step_does_the_workloads_own_work_and_one_that_does_less_is_refused(
    workload, driven
):
    """As many FLOPs as the formula says."""
    step = Step(workload, compiler="none")
    assert torch_checks.problems(driven(step)) == {}
    assert "work" in torch_checks.problems(driven(dataclasses.replace(step, control="frozen")))


def test_a_whole_step_that_keeps_more_is_refused(driven):
    assert "memory" in torch_checks.problems(
        driven(Step("resnet50", compiler="none", control="wide products"))
    )


def test_inference_of_an_encoder_asks_for_cudnns_attention_which_the_device_does_not_have(device):
    """Without dropout PyTorch prefers it on an H100; in training it takes another kernel."""
    with pytest.raises(DriveError, match="cuDNN Frontend error"):
        device.drive(short("bert", scenario="infer"))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("precision", ["fp32", "amp", "amp_fp16"])
@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_nothing_in_the_window_waits_for_a_device_that_does_nothing(
    workload, precision, compiler, environ, sample_data, prose, tmp_path
):
    """As tests/frameworks/test_gpu.py has it where there is a GPU, of batches from files."""
    said = {"name": "null device", "uuid": "GPU-0", "compute_cap": "9.0"}
    nvidia_smi(tmp_path, {theirs: said.get(theirs, "[N/A]") for _, theirs, _ in host.SMI})
    document = by_hand.document(
        {
            "workload": workload,
            "framework": "pytorch",
            "device": "cuda",
            "precision": precision,
            "compiler": compiler,
            "batch_size": 2,
            "data": "sample",
            "data_dir": str({"resnet50": sample_data, "bert": prose}[workload]),
            "warmup_steps": 8,
            "measured_steps": 8,
            **{"resnet50": {"image_size": 64}, "bert": {"sequence_length": 32}}[workload],
        }
    )
    done = subprocess.run(
        [PYTORCH.python(), ROOT / "benchmarks/waits.py", "--case", json.dumps(document)],
        cwd=ROOT,
        env={**environ, "PATH": f"{tmp_path}:{environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(json.loads(done.stdout)) == 8


@pytest.mark.parametrize("workload", SHORT)
def test_a_spot_run_is_replayed_on_a_gpu(workload, environments, environ, tmp_path):
    """Every operator and array of the formulas is there, in float32; what comes out is nothing."""
    run, out, draw = (tmp_path / f"{name}.json" for name in ("run", "replay", "draw"))
    draws.write(draw, "test")
    own = spot.Spot(workload, "pytorch", "none", measured_steps=2)
    assert spot.measured(own, SCRIPTS, run, f"--draw={draw}", "--spot")["status"] == "ok"
    done = subprocess.run(
        [PYTORCH.python(), "-m", "dlperf.certify.replay", "--device=cuda", f"--out={out}", run],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    replay = json.loads(out.read_text())
    assert replay["provenance"]["device"].endswith(", fp32")
    if workload in ("wide_deep", "electra"):
        # The device cannot say how many rows have a gradient, as lazy Adam asks, nor norms, of
        # which LAMB takes roots. What fails on a GPU keeps no round from its report.
        assert replay["status"] == "unavailable"
        assert replay["reason"].startswith("the replay failed on the GPU: ")
        return
    assert replay["status"] == "ok", replay["reason"]
    assert [window["rounded"] for window in replay["windows"]] == [None, None]
