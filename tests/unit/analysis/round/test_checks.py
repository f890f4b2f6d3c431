"""A spot run beside its replay: the verdict, and what it means for ranks."""

import copy
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from analysis_steps import everything
from generated_round import config, write_round

from dlperf import workloads
from dlperf.analysis.round import checks, tiers
from dlperf.analysis.schema.files import read_table
from dlperf.contract.proof import Inapplicable
from dlperf.contract.spot import Spot
from dlperf.measure import answers
from dlperf.measure import spot as spot_runs

ALLOWED = Spot(
    loss=1e-5,
    losses=1e-4,
    change=(0.01, 0.02),
    change_worst=(0.1, 0.2),
    norm=0.01,
    norm_worst=0.1,
    long_change=0.05,
)
DROWNED = Inapplicable("rounding grows too far")
SIGNED = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0]


def pair(short=1, tensors=("a", "b", "c"), short_first=True, chance=False):
    """A run that is exactly its replay."""
    steps = [short, 6] if short_first else [6, short]
    windows = [
        {
            "loss": [2.0] * count,
            "signs": 1,
            "tensors": {name: [[1.0, list(SIGNED)]] for name in tensors},
        }
        for count in steps
    ]
    run = {
        "identity": {"framework": "pytorch", "compiler": "none"},
        "status": "ok",
        "drawn": {"seed": 1, "windows": [[5, count] for count in steps]},
        "windows": windows,
    }
    replay = {
        "windows": [
            {
                "loss": [2.0] * count,
                "norms": dict.fromkeys(tensors, 1.0),
                "rounded": {
                    "loss": [2.0] * count,
                    "norms": dict.fromkeys(tensors, 1.0),
                    "far": dict.fromkeys(tensors, 0.0),
                },
            }
            for count in steps
        ],
        "projections": {"pytorch/none": [{name: list(SIGNED) for name in tensors} for _ in steps]},
        "chance": None,
    }
    if chance:
        run["undrawn"] = {"status": "ok", "windows": copy.deepcopy(windows)}
        replay["chance"] = {
            "draws": 12,
            "window": steps.index(short),
            "loss": [[2.0, 0.01]] * short,
            "norms": dict.fromkeys(tensors, [1.0, 0.05]),
        }
    return run, replay


def failed(run, replay, allowed=ALLOWED):
    return [
        each[0] for each in tiers.of_training(run, replay, allowed) if not 0 <= each[1] <= each[2]
    ]


def inference(change=lambda outputs, rank: outputs, ranks=2):
    """Tiers of an inference whose answers are those of the reference, but for a `change`."""
    dice = np.random.RandomState(1)
    right = [dice.standard_normal((6, 50)) for _ in range(ranks)]
    run = {
        "identity": {"framework": "pytorch", "compiler": "none"},
        "windows": [
            {
                "signs": 5,
                "answers": [
                    {"queued": answers.summary(change(outputs.copy(), rank), 5)}
                    for rank, outputs in enumerate(right)
                ],
            }
        ],
    }
    expected = [{"queued": answers.summary(outputs, 5)} for outputs in right]
    return list(tiers.of_inference(run, {"answers": {"pytorch/none": expected}}, 1e-5))


def test_answers_that_are_the_references_pass():
    assert inference() == [("spot-queued", 0.0, 1e-5, "")]
    ((_, measured, _, _),) = inference(lambda outputs, rank: outputs.astype("float32"))
    assert 0 < measured < 1e-6


def test_a_run_on_batches_of_its_own_is_held_to_its_own_replay():
    run, expected = pair()
    own = {"status": "ok", "reason": "", **expected}
    others = {"status": "unavailable", "reason": "batches of its own reader were not kept"}
    document = {"status": "ok", "windows": [], "projections": {}}
    document["own"] = {"pytorch/none": own, "mxnet/static": others}
    assert not failed(run, tiers.own_replay(run, document))
    run["identity"] = {"framework": "mxnet", "compiler": "static"}
    found = tiers.own_replay(run, document)
    assert (found["status"], found["reason"]) == tuple(others.values())
    assert tiers.own_replay(run, expected) == expected
    run["identity"] = {"framework": "jax", "compiler": "xla"}  # whose exact part crashed
    assert tiers.own_replay(run, document)["status"] == "ok"


def test_a_replay_on_a_gpu_does_not_say_what_rounding_does():
    _, replay = pair()
    for window in replay["windows"]:
        window["rounded"] = None
    assert tiers.drowned(replay, ALLOWED) == ""


def on_own_batches():
    run, expected = pair()
    run["identity"]["layout"] = {"accumulation": 1}
    for number, window in enumerate(run["windows"]):
        steps = len(window["loss"])
        window["batches"] = [
            [[{"zlib": f"{number} {rank} {step}"}] for step in range(steps)] for rank in range(2)
        ]
    return run, expected


def test_a_reader_that_gives_a_batch_again_is_found():
    run, expected = on_own_batches()
    assert not failed(run, expected)
    run["windows"][1]["batches"][1][4] = run["windows"][1]["batches"][0][3]
    assert failed(run, expected) == ["spot-batches"]


def test_a_run_that_takes_fewer_batches_than_it_has_steps_is_found():
    run, expected = on_own_batches()
    del run["windows"][1]["batches"][1][-1]
    assert failed(run, expected) == ["spot-batches"]


def copied_half(outputs, rank):
    outputs[3:] = outputs[:3]
    return outputs


def not_a_number(outputs, rank):
    outputs[2, 7] = math.nan
    return outputs


def one_sample_of_the_other_rank(outputs, rank):
    if rank == 1:
        outputs[4] *= 1.001
    return outputs


@pytest.mark.parametrize(
    "change",
    [
        copied_half,
        not_a_number,
        one_sample_of_the_other_rank,
        lambda outputs, rank: outputs[:5],
        lambda outputs, rank: outputs[::-1].copy(),
        lambda outputs, rank: outputs.astype("float16"),
    ],
    ids=["half", "nan", "one sample", "fewer", "reversed", "float16"],
)
def test_other_answers_do_not_pass(change):
    ((_, measured, allowed, _),) = inference(change)
    assert not 0 <= measured <= allowed


def test_which_answer_is_shown_depends_on_a_number_that_is_drawn_behind_the_window():
    places = {answers.place(signs, "queued", 10) for signs in range(200)}
    assert places == set(range(10))
    kept = {"queued": [(4, np.ones((2, 3))), (9, np.full((2, 3), 2.0))]}
    found = answers.shown(7, kept)["answers"]["queued"]
    assert found["number"] == kept["queued"][answers.place(7, "queued", 2)][0]
    assert len(found["samples"]) == 2 and found["shape"] == [2, 3]


@pytest.mark.parametrize("chance", [False, True])
@pytest.mark.parametrize("short_first", [False, True])
@pytest.mark.parametrize("short", [1, 2])
def test_what_is_its_replay_passes(short, short_first, chance):
    run, replay = pair(short, short_first=short_first, chance=chance)
    found = list(tiers.of_training(run, replay, ALLOWED))
    assert not failed(run, replay)
    assert ("spot-losses" in [each[0] for each in found]) == (short == 2)
    assert all(each[1] == 0 for each in found)


def test_each_tier_fails_for_what_it_holds():
    run, replay = pair(2)
    short, long = run["windows"]
    short["loss"][0] *= 1.001
    assert failed(run, replay) == ["spot-loss"]
    short["loss"][:] = [2.0, 2.001]
    assert failed(run, replay) == ["spot-losses"]
    short["loss"][1] = 2.0
    for name in ("a", "b"):
        short["tensors"][name][0][1] = [1.05 * each for each in SIGNED]
    assert failed(run, replay) == ["spot-change"]
    short["tensors"]["a"][0][1] = SIGNED
    short["tensors"]["b"][0][1] = [1.3 * each for each in SIGNED]
    assert failed(run, replay) == ["spot-change-worst"]
    short["tensors"]["b"][0][1] = SIGNED
    for name in ("a", "b"):
        long["tensors"][name][0][0] = 1.02
    assert failed(run, replay) == ["window-norm"]
    long["tensors"]["a"][0][0] = 1.0
    long["tensors"]["b"][0][0] = 1.2
    assert failed(run, replay) == ["window-norm-worst"]
    long["tensors"]["b"][0][0] = 1.0
    for name in ("a", "b"):
        long["tensors"][name][0][1] = [-each for each in SIGNED]
    assert failed(run, replay) == ["window-change"]


@pytest.mark.parametrize("short", [1, 2])
def test_where_rounding_drowns_the_others_the_last_tensor_is_held(short):
    """`a` and `b` may be anything then, and `c`, nearest to the loss, is what it should be."""
    allowed = dataclasses.replace(
        ALLOWED,
        change=(DROWNED, DROWNED),
        change_worst=(DROWNED, DROWNED),
        long_change=DROWNED,
        change_last=(0.01, 0.02),
    )
    run, replay = pair(short)
    for name in ("a", "b"):
        run["windows"][0]["tensors"][name][0][1] = [-each for each in SIGNED]
    assert not failed(run, replay, allowed)
    run["windows"][0]["tensors"]["c"][0][1] = [(1 + 0.015 * short) * each for each in SIGNED]
    assert failed(run, replay, allowed) == ["spot-change-last"]


def test_the_worst_copy_counts():
    run, replay = pair()
    for name in ("a", "b"):
        run["windows"][0]["tensors"][name].append([1.0, [2 * each for each in SIGNED]])
    assert failed(run, replay) == ["spot-change", "spot-change-worst"]


def test_a_first_loss_counts_in_both_windows():
    run, replay = pair()
    run["windows"][1]["loss"][0] *= 1.001
    assert failed(run, replay) == ["spot-loss"]


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_number_that_is_none_fails(wrong):
    run, replay = pair()
    for name in ("a", "b"):
        run["windows"][0]["tensors"][name] = [[wrong, [wrong] * 8]]
    assert "spot-change" in failed(run, replay) and "spot-change-worst" in failed(run, replay)


def test_a_tensor_that_should_not_move_and_does_fails():
    run, replay = pair()
    for window in replay["windows"]:
        window["norms"]["c"] = 0.0
    for each in replay["projections"]["pytorch/none"]:
        each["c"] = [0.0] * 8
    assert "spot-change-worst" in failed(run, replay)


def test_of_a_training_that_draws_its_undrawn_run_is_replayed_and_chance_is_told_from_change():
    run, replay = pair(chance=True)
    run["windows"][0]["loss"][0] = 2.02  # two deviations
    run["windows"][0]["tensors"]["a"][0][0] = 1.1
    assert not failed(run, replay)
    run["windows"][0]["loss"][0] = 2.2
    assert failed(run, replay) == ["chance-loss"]
    run["windows"][0]["loss"][0] = 2.0
    for name in ("a", "b", "c"):
        run["windows"][0]["tensors"][name][0][0] = 1.6
    assert failed(run, replay) == ["chance-norms"]
    run["undrawn"]["windows"][0]["loss"][0] = 2.1
    assert failed(run, replay) == ["spot-loss", "chance-norms"]
    run["undrawn"] = {"status": "crashed", "reason": "why"}
    assert failed(run, replay) == ["undrawn"]


@pytest.mark.parametrize(("mean", "is_nothing"), [(1e-9, True), (1e-6, False)])
def test_what_rounding_makes_of_no_change_is_not_told_from_chance(mean, is_nothing):
    """Such as a shift that the next norm takes away: in bfloat16 it changes 10,000 times as far."""
    run, replay = pair(chance=True)
    replay["chance"]["norms"]["a"] = [mean, 0.1 * mean]
    run["windows"][0]["tensors"]["a"][0][0] = 1e-5
    assert failed(run, replay) == ([] if is_nothing else ["chance-norms"])


def test_decay_that_is_left_out_shows_along_the_weights_and_older_documents_have_no_such_tier():
    allowed = dataclasses.replace(ALLOWED, along=(0.1, 0.1))
    run, replay = pair(1)
    place = [len(each["loss"]) for each in run["windows"]].index(1)
    short, replayed = run["windows"][place], replay["windows"][place]
    assert not failed(run, replay, allowed)
    replayed["along"] = {"a": -0.02, "b": -0.05}  # c is a vector
    for name, along in (("a", -0.0201), ("b", -0.0502), ("c", 9.0)):
        short["tensors"][name][0].append(along)
    assert not failed(run, replay, allowed)
    short["tensors"]["a"].append([1.0, list(SIGNED), 0.0])  # of another replica's copy
    short["tensors"]["b"][0][2] = -0.03
    assert failed(run, replay, allowed) == ["spot-along"]
    assert not failed(run, replay)  # where other tiers show it
    short["tensors"]["b"][0].pop()
    short["tensors"]["a"].pop()
    assert not failed(run, replay, allowed)


def test_how_many_rows_a_training_samples_is_told_from_chance():
    run, replay = pair(chance=True)
    places = {len(window["loss"]): place for place, window in enumerate(replay["windows"])}
    short, long = places[min(places)], places[max(places)]
    samples = [np.random.RandomState(each).permutation(1000)[:100] for each in range(40)]

    def after(steps, first, size=100):
        drawn = [each[:size] for each in samples[first : first + steps]]
        return len(np.unique(np.concatenate(drawn)))

    for count, place in places.items():
        replay["windows"][place]["rows"] = {"a": [after(count, 0), 1000]}
        run["windows"][place]["rows"] = {"a": [after(count, 20)] * 2}
    assert not failed(run, replay)
    for place in (short, long):
        honest = run["windows"][place]["rows"]["a"][1]
        smaller = after(len(replay["windows"][place]["loss"]), 20, 50)
        run["windows"][place]["rows"]["a"][1] = smaller
        assert failed(run, replay) == ["chance-rows"]
        run["windows"][place]["rows"]["a"][1] = honest
    one, another = pair(1, chance=True)
    place = [len(each["loss"]) for each in one["windows"]].index(1)
    another["windows"][place]["rows"] = {"a": [100, 1000]}
    for count, expected in ((98, []), (97, ["chance-rows"]), (200, ["chance-rows"])):
        one["windows"][place]["rows"] = {"a": [count]}
        assert failed(one, another) == expected
    del one["windows"][place]["rows"]  # a spot run of before
    assert not failed(one, another)


def test_where_rounding_alone_moves_the_formulas_as_far_nobody_is_accused():
    run, replay = pair(2)
    run["windows"][0]["loss"][0] = 9.0
    assert failed(run, replay) == ["spot-loss"] and tiers.drowned(replay, ALLOWED) == ""
    replay["windows"][0]["rounded"]["far"] = dict.fromkeys("abc", 0.5)
    assert tiers.drowned(replay, ALLOWED) == (
        "at this size rounding alone moves the formulas themselves by 0.5 in spot-change, "
        "where 0.02 is allowed"
    )
    _, other = pair()
    other["windows"][1]["rounded"]["loss"][0] = 2.1
    assert "spot-loss" in tiers.drowned(other, ALLOWED)


def in_units(run, replay, off, far=1e-4):
    """The same where float32 moves the formulas by `far`, and the run is `off` in each tensor."""
    for window in replay["windows"]:
        window["rounded"]["far"] = dict.fromkeys(window["norms"], far)
    for window, name in ((each, name) for each in run["windows"] for name in off):
        ((_, sums),) = window["tensors"][name]
        sums[:] = [each + off[name] for each in sums]
    return run, replay


@pytest.mark.parametrize(
    ("off", "found"),
    [
        ({}, []),
        ({"a": 3e-4, "b": 3e-4, "c": 3e-4}, []),
        ({"a": 5e-4, "b": 5e-4, "c": 5e-4}, ["spot-rounding", "window-rounding"]),
        ({"a": 9e-3, "b": 5e-4}, ["spot-rounding", "window-rounding"]),
        ({"a": 9e-3}, []),  # a single tensor, as of one ReLU that rounding turned
        ({"a": math.nan, "b": math.nan, "c": math.nan}, ["spot-rounding", "window-rounding"]),
    ],
)
def test_a_type_of_fewer_digits_is_found_by_what_float32_makes_of_the_formulas(off, found):
    held = dataclasses.replace(ALLOWED, rounding=4.0)
    run, replay = in_units(*pair(2), off)
    named = [each for each in failed(run, replay, held) if each.endswith("-rounding")]
    assert named == found
    assert not [each for each in failed(run, replay) if each.endswith("-rounding")]  # another type


def test_where_float32_makes_nothing_of_a_tensor_or_is_not_known_nothing_is_held_to_it():
    held = dataclasses.replace(ALLOWED, rounding=4.0)
    everywhere = dict.fromkeys("abc", 5e-3)
    run, replay = in_units(*pair(2), everywhere, far=0.0)
    assert not failed(run, replay, held)
    run, replay = in_units(*pair(2), everywhere)
    assert failed(run, replay, held) == ["spot-rounding", "window-rounding"]
    for window in replay["windows"]:  # computed on a GPU, in float32 itself
        window["rounded"] = None
    assert not failed(run, replay, held)


def test_every_workload_has_tolerances_of_full_precision():
    for name in workloads.NAMES:
        assert "fp32" in workloads.spot(name), name


def test_a_file_that_is_no_spot_run_stops_the_merge(tmp_path):
    path = tmp_path / "x.json"
    for content in ("{", json.dumps({"schema": "dlperf.record/2"}), "[]"):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"x\.json: is n"):
            checks._document(path, spot_runs.SCHEMA)


def changed(path: Path, change) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_cell_whose_check_fails_keeps_its_number_and_has_no_rank(tmp_path):
    results = write_round(tmp_path, config(frameworks=["pytorch", "jax", "mxnet"], repetitions=5))
    (run,) = (results / "checks/resnet50/jax").glob("*1n1d*.run.json")

    def other_work(document):
        document["windows"][0]["loss"][0] *= 1.01

    changed(run, other_work)
    (alone,) = (results / "checks/resnet50/mxnet").glob("*1n1d*.run.json")
    alone.unlink()
    everything(results)
    cells = {
        (row["framework"], row["devices_per_node"]): row
        for row in read_table(results / "cells.tsv")
        if row["metric"] == "throughput" and not row["over"]
    }
    false, unchecked = cells["jax", 1], cells["mxnet", 1]
    assert (false["check"], false["rank"]) == ("failed", None)
    assert "not-as-certified:spot-loss" in false["flags"].split()
    assert false["median"] > 0
    assert (unchecked["check"], unchecked["rank"]) == ("missing", None)
    assert cells["pytorch", 1]["check"] == cells["jax", 2]["check"] == "passed"
    assert cells["pytorch", 2]["rank"] and cells["jax", 2]["rank"] and cells["mxnet", 2]["rank"]
    page = (results / "report.html").read_text()
    assert "not what was certified: its spot check fails in the tier spot-loss" in page
    assert '<h3 id="spot-checks">' in page


def test_a_size_that_a_search_found_is_checked_at_that_size(tmp_path, capsys):
    made = config(frameworks=["pytorch"], repetitions=1, memory_limit="4 GB")
    made["checks"] = {"gigabytes": 24}
    made["workloads"]["resnet50"].update(batch_sizes={"fp32": ["max"]}, data=["synthetic"])
    results = write_round(tmp_path, made)
    everything(results)
    rows = read_table(results / "cells.tsv")
    assert {row["check"] for row in rows if row["metric"] == "throughput"} == {"passed"}
    (run,) = (results / "checks/resnet50/pytorch").glob("*1n1d-bmax*.run.json")
    honest = run.read_text()
    changed(run, lambda document: document.update(status="oom", reason="rank 0: out of memory"))
    everything(results)
    rows = read_table(results / "cells.tsv")
    checked = {row["devices_per_node"]: row for row in rows if row["metric"] == "throughput"}
    assert checked[1]["check"] == "certificate only"
    assert "not-as-certified" not in checked[1]["flags"]
    run.write_text(honest)

    def smaller(document):
        document["identity"]["batch_size"] -= 8

    changed(run, smaller)
    with pytest.raises(AssertionError):
        everything(results)
    assert f"{run}: is of another case than its path says" in capsys.readouterr().err
