"""Verdicts on the last evaluation of each repetition of the quality scenario."""

import hashlib
import json
import math

import numpy as np
import pytest

from dlperf import plan
from dlperf.analysis.round import checks
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import draws
from dlperf.scenarios.evaluated import summary_of

SIGNS, SHA256 = 7, "a" * 64
TARGET = 0.97  # of `digits`
RIGHT = np.random.RandomState(1).standard_normal((5, 10))


def made(seconds=600, repetitions=2):
    own = {"epochs": [1], "evaluations": 2, "image_size": 32, "data": ["digits"]}
    return plan.load(
        {
            "round": "test",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {
                "resnet50": {
                    "scenarios": ["quality"],
                    "precisions": ["fp32"],
                    "batch_sizes": {"fp32": [5]},
                    "quality": own,
                }
            },
            "topologies": ["1n1d"],
            "repetitions": repetitions,
            "checks": {"seconds": seconds},
        }
    )


def entry(outputs):
    return {"rank": 0, "batch": 3, "sha256": SHA256, "signs": SIGNS, **summary_of(outputs, SIGNS)}


def curve(*right):
    """A curve of tests in which so many of ten images are right."""
    return [{"sums": [float(each), 10.0]} for each in right]


def write(folder, number, outputs=RIGHT, replay=None, **record):
    """A repetition's record, and what was replayed of it unless `replay` is False.

    It meets its target in no test.
    """
    (case,) = plan.expand(made())
    content = {
        "identity": {"workload": "resnet50"},
        "settings": {"target": TARGET},
        "curve": curve(1, 9),
        "schema": "dlperf.record/2",
        "status": "ok",
        "provenance": {"code_sha256": "c", "lock_sha256": "l"},
        "parity": {},
        "weights": [{"sha256": SHA256}],
        "evaluated": [entry(outputs)],
        **record,
    }
    text = json.dumps({key: value for key, value in content.items() if value is not None})
    document = {
        "schema": "dlperf.evaluated/1",
        "status": "ok",
        "reason": "",
        "record_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "weights_sha256": SHA256,
        "answers": [summary_of(RIGHT, SIGNS)],
        **(replay or {}),
    }
    files = {f"runs/{case.folder}/rep{number}.json": text}
    if replay is not False:
        files[draws.evaluation_of(case, number)] = json.dumps(document)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def read(folder, **config):
    mapping = made(**config)
    return checks.read(mapping, plan.expand(mapping), folder)


def statuses(rows):
    return {row["status"] for row in rows}


def test_answers_of_all_repetitions_pass(tmp_path):
    write(tmp_path, 1, RIGHT.astype("float32"))
    write(tmp_path, 2)
    rows = read(tmp_path)
    assert [row["tier"] for row in rows] == ["spot-evaluated", "spot-weights"]
    assert statuses(rows) == {checks.PASSED}
    worst = rows[0]
    assert 0 < worst["measured"] < 1e-6 and worst["tolerance"] == 1e-5
    assert worst["spot_run"].endswith("rep1.json") and worst["replay"].endswith(".rep1.json")


def changed(number, by=1.0001):
    outputs = RIGHT.copy()
    outputs[number] *= by
    return outputs


@pytest.mark.parametrize(
    ("outputs", "replay", "tier"),
    [
        (changed(4), None, "spot-evaluated"),
        (changed(0, math.nan), None, "spot-evaluated"),
        (RIGHT[:4], None, "spot-evaluated"),
        (RIGHT[::-1].copy(), None, "spot-evaluated"),
        (RIGHT.astype("float16"), None, "spot-evaluated"),
        (RIGHT, {"weights_sha256": "b" * 64}, "spot-weights"),
    ],
)
def test_one_repetition_that_fails_is_enough(tmp_path, outputs, replay, tier):
    write(tmp_path, 1)
    write(tmp_path, 2, outputs, replay)
    rows = read(tmp_path)
    assert statuses(rows) == {checks.FAILED}
    assert checks.first_failed(rows)["tier"] == tier
    assert list(checks.flags(rows, [("c", "l")])) == [f"not-as-certified:{tier}"]


def test_ranks_that_ended_with_other_weights_fail(tmp_path):
    write(tmp_path, 1, weights=[{"sha256": SHA256}, {"sha256": "b" * 64}])
    assert statuses(read(tmp_path, repetitions=1)) == {checks.FAILED}


def early(outputs=RIGHT, replayed=RIGHT, **record):
    """What `write` takes of a repetition that met its target in its first test."""
    replay = {"answers": [summary_of(replayed, SIGNS)], "weights_sha256": "b" * 64}
    return {
        "curve": curve(10, 10),
        "at_target": [entry(outputs)],
        "replay": {"at_target": replay},
        **record,
    }


def test_the_evaluation_that_first_met_the_target_is_held_to_its_weights(tmp_path):
    write(tmp_path, 1, **early())
    write(tmp_path, 2)  # which never met it
    rows = read(tmp_path)
    assert [row["tier"] for row in rows] == ["spot-evaluated", "spot-target", "spot-weights"]
    assert statuses(rows) == {checks.PASSED}
    write(tmp_path, 2, **early(changed(4)))
    rows = read(tmp_path)
    assert statuses(rows) == {checks.FAILED}
    assert checks.first_failed(rows)["tier"] == "spot-target"


@pytest.mark.parametrize(
    "how",
    [
        {"at_target": None, "replay": None},  # from before
        {"settings": {"target": 0.5}, "curve": curve(6, 10, 10)},  # another one met what it had
    ],
)
def test_a_time_to_a_target_that_no_batch_shows_is_not_proved(tmp_path, how):
    write(tmp_path, 1, **early(**how))
    (row,) = read(tmp_path, repetitions=1)
    assert row["status"] == checks.ALONE and "first met the target, 0.97" in row["reason"]


@pytest.mark.parametrize(
    "right",
    [(1, 9), (9, 10)],  # never, and in the last test
)
def test_a_target_that_no_earlier_test_met_needs_the_last_one_alone(tmp_path, right):
    write(tmp_path, 1, curve=curve(*right))
    assert statuses(read(tmp_path, repetitions=1)) == {checks.PASSED}


def test_a_batch_that_met_another_target_than_the_configs_is_held_to_its_weights_too(tmp_path):
    own = {"settings": {"target": 0.5}, "curve": curve(6, 9)}
    write(tmp_path, 1, **early(changed(4), **own))
    assert statuses(read(tmp_path, repetitions=1)) == {checks.FAILED}


def test_a_replay_without_the_batch_that_met_the_target_fails(tmp_path):
    write(tmp_path, 1, **early(replay=None))
    assert statuses(read(tmp_path, repetitions=1)) == {checks.FAILED}


def test_a_replay_of_nothing_fails(tmp_path):
    write(tmp_path, 1, replay={"answers": [None]}, evaluated=[{"rank": 0}])
    assert statuses(read(tmp_path, repetitions=1)) == {checks.FAILED}


def test_a_model_that_diverged_is_what_it_says(tmp_path):
    diverged = changed(2, math.nan)
    write(tmp_path, 1, diverged, replay={"answers": [summary_of(diverged, SIGNS)]})
    assert statuses(read(tmp_path, repetitions=1)) == {checks.PASSED}


def test_samples_that_rounding_decides_are_left_out(tmp_path):
    answers = {**summary_of(RIGHT, SIGNS), "replayed": [0, 1, 2, 3]}
    write(tmp_path, 1, changed(4), replay={"answers": [answers]})
    assert statuses(read(tmp_path, repetitions=1)) == {checks.PASSED}


@pytest.mark.parametrize("replayed", [[0, 2, 4], [2], []])
def test_answers_of_weights_that_are_not_finite_are_no_answers(tmp_path, replayed):
    """One weight that is no number, and the reference knows no answer: so nobody may."""
    answers = {**summary_of(changed(2, math.nan), SIGNS), "replayed": replayed}
    write(tmp_path, 1, replay={"answers": [answers]})
    assert statuses(read(tmp_path, repetitions=1)) == {checks.FAILED}


def test_without_an_environment_that_replays_a_case_has_its_certificate_only(tmp_path):
    """Such a file knows nothing of the record."""
    write(tmp_path, 1)
    (path,) = (tmp_path / "checks").rglob("*.rep1.json")
    no = {"schema": "dlperf.evaluated/1", "status": "unavailable", "reason": "no environment"}
    path.write_text(json.dumps(no))
    (row,) = read(tmp_path, repetitions=1)
    assert (row["status"], row["reason"]) == (checks.ALONE, "no environment")


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ({"evaluated": None}, checks.ALONE, "names no batch"),  # from before
        ({"evaluated": None, "replay": False}, checks.ALONE, "names no batch"),
        ({"replay": False}, checks.MISSING, "not made yet"),
        ({"replay": {"record_sha256": "b" * 64}}, checks.MISSING, "another record"),
        ({"replay": {"status": "unavailable", "reason": "no disk"}}, checks.ALONE, "no disk"),
    ],
)
def test_what_is_not_proved_says_why(tmp_path, how, status, reason):
    write(tmp_path, 1)
    write(tmp_path, 2, **how)
    (row,) = read(tmp_path)
    assert (row["status"], reason in row["reason"]) == (status, True)


def test_a_crash_has_no_score_and_needs_no_proof(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 2, status="crashed", evaluated=None, replay=False)
    assert statuses(read(tmp_path)) == {checks.PASSED}


def test_the_config_can_leave_it_out(tmp_path):
    write(tmp_path, 1)
    (row,) = read(tmp_path, seconds=0)
    assert row["status"] == checks.ALONE and "checks.seconds: 0" in row["reason"]


def test_a_file_that_is_no_replay_stops_the_merge(tmp_path):
    write(tmp_path, 1, replay={"schema": "dlperf.replay/1"})
    with pytest.raises(AnalysisError, match=r"rep1\.json: is no dlperf\.evaluated/1"):
        read(tmp_path)


@pytest.mark.parametrize(("off", "status"), [(-2.5, checks.PASSED), (8.5, checks.FAILED)])
def test_what_a_model_draws_by_itself_is_held_to_chance(tmp_path, off, status):
    drawn = {**summary_of(RIGHT, SIGNS), "drawn_deviations": off}
    write(tmp_path, 1, replay={"answers": [drawn]})
    write(tmp_path, 2)
    tiers = {row["tier"]: row for row in read(tmp_path)}
    assert tiers["chance-drawn"]["status"] == status
    assert tiers["chance-drawn"]["measured"] == abs(off)


def test_a_model_that_does_not_say_what_it_drew_fails(tmp_path):
    drawn = {**summary_of(RIGHT, SIGNS), "drawn_deviations": None}
    write(tmp_path, 1, replay={"answers": [drawn]})
    write(tmp_path, 2)
    assert checks.FAILED in statuses(read(tmp_path))
