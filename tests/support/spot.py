"""The spot check of one implementation, whole: its run, the reference's replay, and the verdict."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from conftest import ROOT, SCRIPTS, skip_without_bfloat16

from dlperf import workloads
from dlperf.analysis.round import tiers
from dlperf.contract import draws
from dlperf.loaders.formats import OF_FRAMEWORK
from dlperf.measure import bounds
from dlperf.workloads.cases import case_of

#: Sizes at which a check takes seconds; batches of a device.
SIZES = {
    "gpt": {"width": 32, "layers": 2, "heads": 2, "sequence_length": 32},
    "wide_deep": {"vocabulary": 2600, "layers": 2},
    "resnet50": {"image_size": 32},
    "insightface": {"backbone": "y1", "num_classes": 101, "head": "model", "image_size": 64},
    "bert": {"sequence_length": 16},
    "electra": {"sequence_length": 16},
    "electra_squad": {"sequence_length": 64},
}
BATCHES = {
    **{"gpt": 4, "wide_deep": 64, "resnet50": 8, "insightface": 4},
    **{"bert": 2, "electra": 2, "electra_squad": 2},
}


class Spot(NamedTuple):
    """What a spot run is made of, beside the implementation."""

    workload: str
    framework: str
    compiler: str
    devices: int = 1
    layout: tuple[tuple[str, int], ...] = ()
    precision: str = "fp32"
    measured_steps: int = 6
    scenario: str = "train"
    data: str = "synthetic"
    short_steps: int = 0  # of the short window; 0: as they are drawn
    searched: str = ""  # whether its batch, or another size, is one that a search found


def check(spot: Spot, scripts: Path, folder: Path, draw: Path | None = None) -> list[tiers.Tier]:
    """The tiers of an implementation in this copy of the code, from a new draw unless one is given.

    The replay and the verdict are those of the code itself.
    """
    skip_without_bfloat16(spot.framework, spot.precision)
    folder.mkdir(exist_ok=True)
    if draw is None:
        draw = folder / "draw.json"
        draws.write(draw, "test")
        while spot.short_steps and short_of(draw) != spot.short_steps:
            draw.unlink()
            draws.write(draw, "test")
    run, replay = folder / "run.json", folder / "replay.json"
    document = measured(spot, scripts, run, f"--draw={draw}", "--spot")
    if document["status"] != "ok":  # such as answers that are not those of their batches
        return [(f"{document['status']}: {document['reason']}", math.inf, 0.0, "")]
    given = ("--environment", f"{ROOT}/results/environments/pytorch.cpu/env.json")
    called(SCRIPTS, "dlperf.certify.replay", *given, f"--out={replay}", str(run))
    replayed = tiers.own_replay(document, json.loads(replay.read_text()))
    assert replayed["status"] == "ok", replayed["reason"]
    allowed = bounds.allowed(case_of(document["identity"]), spot.precision)
    judged = tiers.of_training if spot.scenario == "train" else tiers.of_inference
    return list(judged(document, replayed, allowed))


def data_folder(spot: Spot) -> str:
    """What it reads, from the project's folder; "" of synthetic batches."""
    folder = workloads.data(spot.workload)[spot.data].folder
    name = folder.format(format=OF_FRAMEWORK.get(spot.framework, ""))
    return f"results/data/{name}" if name else ""


def short_of(draw: Path) -> int:
    """How many steps the short window of a draw's spot run has."""
    return draws.read(draw).spot_run(1, 6).windows[-1].steps


def measured(spot: Spot, scripts: Path, out: Path, *words: str, **settings: float) -> dict:
    """What the stopwatch of this copy of the code writes of it, with these settings too."""
    sizes = {**SIZES[spot.workload], **dict(spot.layout)}
    options = {
        **{"workload": spot.workload, "framework": spot.framework, "compiler": spot.compiler},
        **{"devices": spot.devices, "precision": spot.precision, "device": "cpu"},
        **{"batch_size": BATCHES[spot.workload], "warmup_steps": 2, "timeout_seconds": 900},
        **{"measured_steps": spot.measured_steps, "scenario": spot.scenario, **sizes, **settings},
        **({"arrival_rate": 50} if spot.scenario == "server" else {}),
        **({"data": spot.data, "data_dir": data_folder(spot)} if data_folder(spot) else {}),
    }
    case = out.with_name("case.json")
    given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    made = json.loads(called(SCRIPTS, "dlperf.measure", "case", *given))
    made["identity"]["searched"] = spot.searched
    case.write_text(json.dumps(made))
    environment = f"--environment={ROOT}/results/environments/{spot.framework}.cpu/env.json"
    called(scripts, "dlperf.measure", f"--case={case}", f"--out={out}", environment, *words)
    return json.loads(out.read_text())


def called(scripts: Path, module: str, *arguments: str) -> str:
    """What a module of this copy of the code prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(scripts)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def failed(found: list[tiers.Tier]) -> list[str]:
    """The names of tiers that do not pass."""
    return [name for name, measured, allowed, _ in found if not 0 <= measured <= allowed]
