"""A repetition of the quality scenario: its record, the replay of a test, and the verdict."""

import json
import math
from pathlib import Path
from typing import NamedTuple

from conftest import ROOT, SCRIPTS
from spot import called

from dlperf import plan, workloads
from dlperf.analysis.round import tiers
from dlperf.measure import bounds
from dlperf.workloads.cases import case_of

#: Sizes at which that takes seconds, and of SQuAD minutes.
SIZES = {
    "resnet50": {"image_size": 32, "data": ["digits"]},
    "wide_deep": {"vocabulary": 15000, "layers": 2},
    "bert": {"sequence_length": 16},
    "electra": {
        "sequence_length": 16,
        "first_steps": 2,
        "second_length": 32,
        "second_batch_size": 7,
    },
    "electra_squad": {"sequence_length": 64},
}


class Evaluation(NamedTuple):
    """What is trained and tested, beside the implementation.

    is_met_early: whether any score meets the target, so that the first of two tests does.
    """

    workload: str
    framework: str
    devices: int = 1
    precision: str = "fp32"
    steps: int = 4
    is_met_early: bool = False


def check(made: Evaluation, scripts: Path, folder: Path, digits: Path) -> list[tiers.Tier]:
    """The tiers of an implementation in this copy of the code. digits: the folder of that data.

    The replay and the verdict are those of the code itself.
    """
    folder.mkdir(exist_ok=True)
    case, record, replay = (folder / name for name in ("case.json", "rep1.json", "replay.json"))
    asked = {"epochs": [1], "evaluations": 2, **SIZES[made.workload]}
    own = {"scenarios": ["quality"], "precisions": [made.precision], "quality": asked}
    config = plan.load(
        {
            "round": "test",
            "device": "cpu",
            "frameworks": [made.framework],
            "workloads": {made.workload: {**own, "batch_sizes": {made.precision: [20]}}},
            "topologies": [f"1n{made.devices}d"],
            "repetitions": 1,
            "steps": {"warmup": 2, "measured": 1},
            "timeout_seconds": 1500,
        }
    )
    document = plan.document(plan.expand(config)[0], config, 1)
    document["settings"]["measured_steps"] = made.steps
    if made.is_met_early:
        judge = workloads.of(made.workload).quality
        assert judge
        document["settings"]["target"] = 1e9 if judge.score.better == "lower" else 0
    if made.workload == "resnet50":
        document["settings"]["data_dir"] = str(digits)
    case.write_text(json.dumps(document))
    environments, weights = f"{ROOT}/results/environments", folder / "weights"
    environment = f"--environment={environments}/{made.framework}.cpu/env.json"
    given = (f"--case={case}", f"--weights={weights}", f"--out={record}", environment)
    called(scripts, "dlperf.measure", *given)
    found = json.loads(record.read_text())
    if found["status"] != "ok":  # such as answers that were changed
        return [(f"{found['status']}: {found['reason']}", math.inf, 0.0, "")]
    environment = ("--environment", f"{environments}/pytorch.cpu/env.json")
    given = (f"--weights={weights}", f"--out={replay}", *environment, str(record))
    called(SCRIPTS, "dlperf.certify.evaluated", *given)
    replayed = json.loads(replay.read_text())
    assert not weights.exists()
    assert replayed["status"] == "ok", replayed["reason"]
    kind = "amp" if made.precision == "amp" else made.precision
    allowed = bounds.allowed_answers(case_of(found["identity"]), kind)
    assert allowed
    return list(tiers.of_tests(found, replayed, allowed))
