"""What a certificate may say: what the judge writes is accepted, what contradicts it is named."""

import copy
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from dlperf import frameworks, workloads
from dlperf.analysis.schema import documents
from dlperf.certify import SCATTERED, check, judge, required
from dlperf.certify.required import Subject
from dlperf.contract import strict_json
from dlperf.contract.proof import applies
from dlperf.measure import code

RELEASED = sorted((ROOT / "certificates").rglob("*.json"))
JAX = ROOT / "certificates/resnet50/jax/cpu-fp32-xla-1.json"
MINDSPORE = ROOT / "certificates/resnet50/mindspore/cpu-fp32-graph-1.json"
TORCH_INFERS = ROOT / "certificates/bert/pytorch/cpu-fp32-infer-1.json"
EXACT = {"a": [0.0, 2.0], "b": [0.0, 1.0]}
PARTS = {"loss": [7.0] * 5, "timed_loss": 7.0, "again_loss": 7.0, "data_digest": ["d0"]}
#: Losses of a mean of 5 and a deviation of 0.1, as dropout's random numbers give them.
BY_CHANCE = [random.Random(step).gauss(5.0, 0.1) for step in range(SCATTERED)]
CRASHED = {"status": "crashed", "reason": "rank 0: ended with signal 11"}


#: Variants and layouts of every workload.
FORMS = [("", "1"), ("", "dp2"), ("", "acc2"), ("", "dp2acc2"), ("", "dp2-2n")]
FORMS += [("infer", "1"), ("quality", "1"), ("quality", "dp2")]


def subjects() -> Iterator[Subject]:
    """What certificates may be of, also where a framework cannot do it."""
    of_all = itertools.product(workloads.NAMES, frameworks.NAMES, ("cpu", "cuda"), ("fp32", "amp"))
    for workload, framework, device, precision in of_all:
        for compiler in list(frameworks.of(framework).compilers)[:2]:
            for variant, layout in FORMS:
                own = (workload, framework, device, precision, compiler, variant, layout)
                served = not variant or applies(
                    workloads.proof(workload).tolerances["fp32"].outputs
                )
                if served and (precision == "fp32" or frameworks.of(framework).half[device]):
                    yield Subject(*own)


def left(**changes: Any) -> dict[str, Any]:
    """What a rank leaves that does just what the reference does, in a run of any kind."""
    names = ("gradient", "first", "last", "again", "optimizer", "statistics", "neutral")
    return {
        "status": "ok",
        "shapes": [],
        "loss": [7.0] * 5,
        "neutral_loss": [7.0],
        "again_loss": 7.0,
        "data_digest": "d0",
        "tested": 0.0,
        "compared": {name: copy.deepcopy(EXACT) for name in names},
        **{"distance": 0.0, "permuted": 0.0, "alone": 0.0, "flipped": []},
        **changes,
    }


def certificate(subject: Subject, **changed: dict[str, Any]) -> dict[str, Any]:
    """The certificate of runs that do just what the reference does, but for those given."""
    narrow = frameworks.ASKED.get(subject.precision) or next(
        iter(frameworks.of(subject.framework).half[subject.device]), "bfloat16"
    )
    amp = subject.precision.startswith("amp")
    dimensions = workloads.certified(subject.workload, subject.variant)
    places = workloads.proof(subject.workload).places(dimensions)
    dropped = {place: [5.0] * 3 for place in places}
    manifest = {"dropped": dropped, "parts": {"3": PARTS}, "data_digest": ["d0"]}
    of_steps = {"mean": [5.0] * SCATTERED, "deviation": [0.1] * SCATTERED}
    of_steps["batch"] = [0.0] * SCATTERED
    manifest["scattered"] = {**of_steps, "draws": 48, "kurtosis": 3.0}
    runs = {}
    for name in required.runs(subject):
        runs[name] = changed.get(name) or left(dropped=dropped, scattered=BY_CHANCE)
        if runs[name]["status"] == "ok":
            runs[name]["parity"] = {"compute_dtype": narrow if amp else "float32"}
        if name == "timed" and subject.precision != "fp32":  # narrower types have an error
            runs[name].setdefault("compared", {})["gradient"] = {"a": [6e-3, 2.0], "b": [3e-3, 1.0]}
        if name == "long" and "long" not in changed:
            others = workloads.proof(subject.workload).long_runs.get(subject.variant, (7.0,))
            manifest["long_run"] = {"status": "ok", "mean_losses": [min(others)] * 3}
            runs[name]["loss"] = [min(others)]
    tiers = judge.tiers(subject, manifest, PARTS, runs)
    parity = (runs.get("timed") or runs["float64"]).get("parity", {})
    return {
        "schema": "dlperf.certificate/2",
        **asdict(subject),
        "passed": all(tier["passed"] is not False for tier in tiers),
        "tiers": tiers,
        "parity": parity,
        "provenance": {
            **dict.fromkeys(("git_commit", "code_sha256", "lock_sha256"), "0" * 40),
            **{"start_utc": "2026-11-21T04:57:00Z", "seconds": 1.0},
        },
    }


def code_of(document: dict[str, Any]) -> str:
    return code.sha256(code.of_implementation(document["workload"], document["framework"]))


def of_this_code(document: dict[str, Any]) -> dict[str, Any]:
    """As if it had been made with this code: what is wrong with it is then said tier by tier."""
    document["provenance"]["code_sha256"] = code_of(document)
    return document


def problems(document: dict[str, Any]) -> list[str]:
    """As the merge reads it: from JSON, by the schema, by what is required."""
    read = strict_json.parse(json.dumps(document, allow_nan=False))
    return documents.problems(read, documents.CERTIFICATE) or check.problems(read)


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_released_certificate_is_accepted(path: Path):
    """One of other code is not taken; that all are of this code is for `make test-full`."""
    document = strict_json.read(path)
    assert documents.problems(document, documents.CERTIFICATE) == []
    if document["provenance"]["code_sha256"] == code_of(document):
        assert check.problems(document) == []


def test_what_the_judge_writes_is_accepted_of_all_workloads_and_frameworks():
    passed = 0
    for subject in subjects():
        document = certificate(subject)
        assert problems(document) == [], subject
        passed += document["passed"]
        for run in required.runs(subject):
            stopped = certificate(subject, **{run: CRASHED})
            assert not stopped["passed"] and problems(stopped) == [], (subject, run)
    assert passed > 100


def nan_in(name: str) -> dict[str, Any]:
    compared = {**left()["compared"], name: {"a": [math.nan, 1.0], "b": [0.0, 1.0]}}
    return left(compared=compared, dropped={})


@pytest.mark.parametrize(
    "changed",
    [
        {"timed": left(shapes=[["a", [1], None]])},
        {"float64": left(shapes=[["a", [1], None]])},
        {"float64": left(data_digest="d1")},
        {"float64": left(loss=[math.inf] * 5)},
        {"float64": nan_in("last")},
        {"timed": nan_in("gradient")},
        {"timed": CRASHED, "float64": CRASHED, "long": CRASHED},
        {"float64": CRASHED, "long": CRASHED},
    ],
)
def test_a_certificate_that_failed_is_accepted_as_one(changed):
    document = certificate(Subject("resnet50", "jax", "cpu", "fp32", "xla", "", "1"), **changed)
    assert not document["passed"]
    assert problems(document) == []


def test_one_without_a_reference_is_accepted_as_one_that_failed():
    document = strict_json.read(JAX)
    failed = judge.failed("reference", {"status": "failed", "reason": "no PyTorch"})
    assert problems({**document, "passed": False, "parity": {}, "tiers": [failed]}) == []


def tier(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in document["tiers"] if each["name"] == name)


def put(tier_name: str, /, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: tier(document, tier_name).update(values)


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["tiers"] = [each for each in document["tiers"] if each["name"] not in names]

    return change


def not_run(name: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        own = tier(document, name)
        own.clear()
        own.update(name=name, passed=None, reason=required.NO_FLOAT64)

    return change


def twice(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["tiers"].append(dict(tier(document, name)))


def first_last(document: dict[str, Any]) -> None:
    document["tiers"].reverse()


def said_by_word(document: dict[str, Any]) -> None:
    own = tier(document, "timed-loss")
    own.clear()
    own.update(name="timed-loss", passed=True, reason="as good as the reference")


def crashed_and_passed(document: dict[str, Any]) -> None:
    without("float64-gradient", "float64-losses", "float64-update", "float64-statistics")(document)
    own = tier(document, "float64-loss")
    own.clear()
    own.update(name="float64-loss", passed=True, reason="crashed: signal 11")


def as_an_inference(document: dict[str, Any]) -> None:
    document["tiers"] = strict_json.read(TORCH_INFERS)["tiers"]


def measured_in_float64(document: dict[str, Any]) -> None:
    put("float64-loss", passed=True, measured=0.0, tolerance=1e-9, worst={})(document)


def other_input_that_passes(document: dict[str, Any]) -> None:
    without(*(f"float64-{each}" for each in ("loss", "gradient", "losses", "update")))(document)
    entry = {"name": "input", "passed": True, "measured": 0, "tolerance": 0, "worst": {}}
    document["tiers"].insert(1, entry)


@pytest.mark.parametrize(
    "path, change, said",
    [
        (
            JAX,
            put("timed-loss", measured=0.5),
            "passed is true, but measured, 0.5, exc",
        ),
        (JAX, put("timed-loss", measured=0.5, tolerance=1.0), "tier timed-loss: tolerance is 1.0"),
        (JAX, put("timed-loss", measured=-1e-9), "tier timed-loss: measured is -1e-09"),
        (JAX, put("shapes", measured=1, tolerance=1), "tier shapes: tolerance is 1"),
        (JAX, put("long-run", tolerance=2.0), "tier long-run: tolerance is 2.0"),
        (JAX, put("timed-loss", passed=False), "within its tolerance"),
        (JAX, without("optimizer"), "tier optimizer: is missing; it has to be there, measured"),
        (JAX, without("shapes"), "tier shapes: is missing"),
        (JAX, without("float64-loss"), "tier float64-loss: is missing"),
        (
            JAX,
            put("timed-loss", name="timed-los"),
            "timed-los: is no tier of this certificate; ",
        ),
        (JAX, put("timed-loss", name="all-is-well"), "tier timed-loss: is missing"),
        (JAX, twice("timed-loss"), "tier timed-loss: stands 2 times"),
        (JAX, first_last, "stands where shapes has to stand"),
        (JAX, not_run("float64-gradient"), "tier float64-gradient: passed is null"),
        (JAX, not_run("optimizer"), "tier optimizer: passed is null and nothing is measured"),
        (JAX, said_by_word, "tier timed-loss: passed is true and nothing is measured"),
        (JAX, crashed_and_passed, "tier float64-loss: passed is true and nothing is measured"),
        (JAX, as_an_inference, "tier timed-alone: is no tier of this certificate"),
        (JAX, other_input_that_passes, "tier input: passed is true, but"),
        (MINDSPORE, measured_in_float64, "tier float64-loss: passed is true, but it is not app"),
        (MINDSPORE, without("timed-neutral-gradient"), "tier timed-neutral-gradient: is missing"),
        (TORCH_INFERS, put("timed-alone", measured=1), "tier timed-alone: passed is true, but"),
    ],
)
def test_what_contradicts_itself_or_the_proof_is_named(path, change, said):
    document = of_this_code(strict_json.read(path))
    change(document)
    document["passed"] = all(each["passed"] is not False for each in document["tiers"])
    assert any(said in each for each in problems(document)), problems(document)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", ""])
def test_float16_is_not_held_to_the_tolerances_of_bfloat16(dtype):
    document = certificate(Subject("resnet50", "pytorch", "cpu", "amp_fp16", "none", "", "1"))
    assert problems(document) == []
    document["parity"] = {"compute_dtype": dtype}
    assert any("parity.compute_dtype" in each for each in problems(document))


def test_one_of_other_code_is_said_to_be_that():
    document = strict_json.read(JAX)
    document["provenance"]["code_sha256"] = "0" * 64
    assert problems(document) == [], "where it has the same tiers, it is for the merge to say"
    put("timed-loss", tolerance=1e-4)(document)
    (said,) = problems(document)
    assert "made with other code than this" in said and "tier timed-loss: tolerance" in said
