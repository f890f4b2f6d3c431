"""The quality scenario: when it is tested, what counts, and what it refuses."""

import dataclasses
import time
from types import SimpleNamespace

import gpu_runs
import numpy as np
import pytest
from user_time import compute

from dlperf import workloads
from dlperf.contract.dimension import Dimensions
from dlperf.contract.run import Input, Run
from dlperf.contract.work import feed
from dlperf.scenarios import early_return, quality, train
from dlperf.workloads import inputs

LABELS = np.array([0, 1, 2, 0], np.int32)


class Made:
    """A work of which each step makes one label more right; it notes what it is asked for."""

    def __init__(self, late=0.0):
        self.asked, self.taken, self.late = [], 0, late
        tests = [((np.zeros((4, 1)), LABELS), 3)]  # the last one fills the batch up
        self.batches = SimpleNamespace(
            tests=lambda: tests, begin=lambda: self.asked.append("begin")
        )
        self.weights = SimpleNamespace(read=lambda: iter([("fc.weight", np.zeros(1))]))
        self.weights_in_files = False

    def step(self):
        self.asked.append("step")
        self.taken += 1
        return self.taken

    def wait(self):
        self.asked.append("wait")

    def loss(self, handle):
        if handle == 6:
            compute(self.late)
            self.late = 0.0  # it is there now
        return 1.0 / handle

    def evaluate(self, images, labels):
        self.asked.append("test")
        outputs = np.zeros((4, 3))
        for index in range(4):
            right = LABELS[index] if index < self.taken - 1 else (LABELS[index] + 1) % 3
            outputs[index, right] = 1
        return outputs

    def restart(self, initial):
        self.asked.append("restart")


def trained(work, steps=6, evaluations=3, **more):
    run = SimpleNamespace(
        workload="resnet50",
        device="cpu",
        measured_steps=steps,
        evaluations=evaluations,
        **{"weights_dir": "", **more},
    )
    stopwatch = SimpleNamespace(
        mark=lambda: None,
        open=lambda: work.asked.append("open"),
        ended=lambda: work.asked.append("ended"),
        close=lambda: work.asked.append("close"),
        taken=lambda: early_return.Taken(time.process_time(), time.process_time()),
        window=lambda start, end: {"start": start, "end": end},
    )
    return quality.window(run, work, stopwatch)


def test_it_is_tested_evenly_and_nothing_is_read_before_the_clock_runs():
    work = Made()
    found = trained(work)
    assert work.asked == [
        *("open", "begin"),
        *("step", "step", "wait", "test") * 3,
        *("ended", "close"),
    ]
    assert [point[0] for point in found["points"]] == [2, 4, 6]
    # of four samples the last one only fills the batch
    assert [point[3:] for point in found["points"]] == [
        [[1.0, 3.0], 3],
        [[3.0, 3.0], 3],
        [[3.0, 3.0], 3],
    ]
    assert found["loss"] == [1.0 / number for number in range(1, 7)]
    seconds = [value for point in found["points"] for value in point[1:3]]
    assert seconds == sorted(seconds) and seconds[0] > 0


def test_the_clock_stands_still_while_weights_that_met_the_target_are_written(tmp_path):
    work = Made()
    work.weights.keep = lambda folder: time.sleep(0.5)
    told = {"rank": 0, "ranks": 1, "target": 0.9, "weights_dir": str(tmp_path)}
    found = trained(work, **told)
    assert [point[3] for point in found["points"]] == [[1.0, 3.0], [3.0, 3.0], [3.0, 3.0]]
    assert found["points"][-1][2] < 0.5
    assert {found[name]["batch"] for name in ("evaluated", "at_target")} == {0}
    missed = trained(Made(), **{**told, "target": 1.1})
    assert "evaluated" in missed and "at_target" not in missed


def test_what_counts_of_answers_stays_what_it_was_when_they_came():
    run = SimpleNamespace(workload="wide_deep")
    logits, labels = np.ones(4, "float32"), np.zeros(4, "float32")
    found = quality.counted(run, (labels, labels, labels, labels), 3, logits)
    logits[:] = 2
    assert found[0].tolist() == [1, 1, 1]


def test_tests_are_evenly_spaced_and_the_last_one_is_at_the_end():
    assert quality.evaluated_at(264, 12) == [22 * number for number in range(1, 13)]
    assert quality.evaluated_at(7, 3) == [2, 5, 7]


def test_a_wait_that_waits_for_nothing_is_an_error():
    with pytest.raises(RuntimeError, match="too early"):
        trained(Made(late=0.2))


def test_a_loss_that_is_not_finite_names_its_step():
    work = Made()
    work.loss = lambda handle: float("nan") if handle == 3 else 1.0
    with pytest.raises(ValueError, match="not finite: step 3"):
        trained(work)


def test_before_it_everything_is_tried_once():
    work = Made()
    work.step()
    quality.warm(None, work, 1, initial={})
    assert work.asked == ["step", "test"]


@pytest.mark.parametrize("in_files", [False, True])
def test_weights_are_read_before_the_window_but_not_from_files(in_files):
    work, read = Made(), []
    work.weights_in_files = in_files
    work.weights.read = lambda: iter(read.append("weights") or [("fc.weight", np.zeros(1))])
    train.read(work, 1)
    assert read == ([] if in_files else ["weights"])


def test_of_two_ranks_the_slower_one_counts_and_all_tests_are_added():
    facts = [
        {"points": [[2, 1.0, 1.5, [3.0, 4.0], 4]], "loss": [2.0, 1.0]},
        {"points": [[2, 1.2, 1.4, [2.0, 3.0], 3]], "loss": [4.0, 3.0]},
    ]
    for each in facts:
        each.update(clock="host", seconds=[1.0, 1.0], loader_seconds=0.0)
    case = SimpleNamespace(global_batch_size=8, dimensions={})
    found = quality.summary(facts, case, {"warmup_steps": 1, "measured_steps": 2})
    assert found["curve"] == [
        {
            "samples": 16,
            "seconds_trained": 1.2,
            "seconds_tested": 1.5,
            "sums": [5.0, 7.0],
            "count": 7,
        }
    ]
    assert found["steps"]["loss"] == [3.0, 2.0]


JUDGED = [name for name in workloads.NAMES if workloads.of(name).quality]


@pytest.mark.parametrize("workload", JUDGED)
def test_a_model_is_asked_without_the_answers_and_cannot_reach_them(workload):
    places = workloads.of(workload).answers
    assert places, "what is judged has answers"
    whole = np.arange(1, 1 + 8 * 6, dtype=np.int32).reshape(8, 6)
    batch = tuple(whole)  # views of one array, each of which leads to all others
    asked = workloads.asked(workload, batch, apart=True)
    for place, (given, own) in enumerate(zip(asked, batch, strict=True)):
        assert given.any() != (place in places) and given.dtype == own.dtype
        assert given.base is None and not np.shares_memory(given, whole)
    assert (whole > 0).all(), "who judges has them"


def test_batches_keep_their_form_where_they_are_asked():
    from dlperf.workloads.wide_deep import input as clicks

    batch = clicks.Batch(np.ones(2), np.ones(2), np.ones(2), np.ones(2))
    asked = workloads.asked("wide_deep", batch)
    assert isinstance(asked, clicks.Batch) and not asked.labels.any()
    assert asked.wide is batch.wide, "nothing is copied in a window"


#: What an evaluation answers that has nothing but the labels, in several ways.
READING = {
    "the labels that it is given": lambda images, labels: labels,
    "what its images are a part of": lambda images, labels: (
        images if images.base is None else images.base[:, -1]
    ),
    "the labels of before": lambda images, labels, seen=[]: seen.append(labels.copy()) or seen[0],
}


@pytest.mark.parametrize("way", READING.values(), ids=READING)
def test_an_evaluation_that_reads_labels_scores_at_chance(way):
    dice = np.random.RandomState(3)
    right = dice.randint(0, 10, 1000)
    whole = np.concatenate([dice.standard_normal((1000, 4)), right[:, None]], 1)
    batches = [((part[:, :4], part[:, 4]), 100) for part in np.split(whole, 10)]

    def evaluate(images, labels):
        found = np.asarray(way(images, labels)).reshape(100, -1)[:, 0].astype(int) % 10
        return np.eye(10)[found]

    run, work = SimpleNamespace(workload="resnet50"), SimpleNamespace(evaluate=evaluate)
    sums, count = quality.test(run, work, batches)
    assert count == 1000 and sums[0] / sums[1] < 0.2, "a guess is right once in ten"


def test_an_evaluation_cannot_make_its_answers_the_right_ones():
    labels = np.arange(64) % 4

    def evaluate(images, given):
        given[...] = 0
        images[...] = 0
        return np.eye(4)[np.zeros(64, int)]

    run, work = SimpleNamespace(workload="resnet50"), SimpleNamespace(evaluate=evaluate)
    images = np.ones((64, 4))
    assert quality.test(run, work, [((images, labels), 64)]) == ([16.0, 64.0], 64)
    assert images.all()


@pytest.mark.parametrize("workload", JUDGED)
def test_an_inference_gets_batches_without_answers(workload):
    kind = workloads.of(workload).data["synthetic"]
    asked = {"image_size": 32} if workload == "resnet50" else {}
    dimensions = dict(Dimensions(workloads.dimensions(workload), asked))
    run = SimpleNamespace(workload=workload, data="synthetic", scenario="infer")
    run.input = Input(workload, "synthetic", "", 64, dimensions, 1, pool=0, kind=kind)
    places, batches = workloads.of(workload).answers, inputs.open_batches(run)
    assert batches.pooled and batches.first_batch_sha256
    # a pool gives its batches in several ways, and is filled anew before a window
    given, before = feed(batches, lambda *arrays: arrays), batches.batch(0)
    batches.redraw(2, 4)
    for batch in (batches.next(), batches.batch(1), next(iter(batches.contents())), given()):
        assert not any(np.any(batch[place]) for place in places) and np.any(batch[0])
    assert not np.array_equal(before[0], batches.batch(0)[0])
    run.scenario = "train"
    run.input = run.input._replace(pool=4)
    batches = inputs.open_batches(run)
    assert any(np.any(batches.next()[place]) for place in places)


def test_what_an_inference_keeps_on_its_device_is_drawn_anew_with_its_pool():
    kind = workloads.of("wide_deep").data["synthetic"]
    run = SimpleNamespace(workload="wide_deep", data="synthetic", scenario="infer")
    dimensions = dict(Dimensions(workloads.dimensions("wide_deep"), {}))
    run.input = Input("wide_deep", "synthetic", "", 8, dimensions, 1, pool=0, kind=kind)
    batches = inputs.open_batches(run)
    given = feed(batches, lambda *arrays: arrays)
    first = given()
    batches.redraw(2, 4)
    again = given()
    assert not np.array_equal(first[2], again[2])
    assert np.array_equal(again[2], batches.batch(batches.order[0]).deep)


def test_a_score_of_all_samples_together_is_computed_once_from_what_is_kept_of_each():
    rows = np.array([[3.0], [1.0], [2.0]]), np.array([1.0, 0.0, 0.0])
    more = np.array([[2.5], [0.0], [0.0]]), np.array([1.0, 1.0, 1.0])
    batches = [((x, x, x, labels), own) for (x, labels), own in ((rows, 3), (more, 1))]
    given = SimpleNamespace(tests=lambda: batches, known=lambda: ())
    work = SimpleNamespace(evaluate=lambda numbers, *_: numbers[:, 0], batches=given)
    run = SimpleNamespace(workload="wide_deep")
    # of clicks at 3 and 2.5, and others at 1 and 2, all pairs are in order: also across batches
    assert quality.test(run, work, batches) == ([4.0, 4.0], 4)
    assert quality.test(run, work, []) == ([], 0), "of another rank"


@pytest.mark.parametrize("folder", ["", "/there"])
def test_a_certificates_rank_is_told_of_no_folder_for_weights(tmp_path, folder):
    told = dataclasses.asdict(gpu_runs.a_run("pytorch", scenario="quality"))
    spec = tmp_path / "spec.json"
    quality.Run(**told, weights_dir=folder).save(spec)
    assert quality.Run.load(spec).weights_dir == folder
    if not folder:
        assert Run.load(spec) == Run(**told)
