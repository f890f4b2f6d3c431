"""Time to quality: how long, and how many samples, until a test metric reaches its target.

A repetition trains a fixed number of epochs and is tested at fixed numbers of samples; so one run
gives the curve, the final metric and the time to any target. The clock starts before the first
sample to train on is touched, after start-up and compilation on noise, with the weights written
anew; it includes the tests, as in MLPerf [mlcommons/training_policies]. A repetition is a seed.
Of the last test, and of the one that first met the target, one batch is drawn, whose answers are
replayed later from the weights at that moment (evaluated.py). While those that met the target are
written, the clock stands still.
"""

import dataclasses
import functools
import itertools
import json
import math
from typing import Dict

from dlperf import workloads
from dlperf.contract import run as contract
from dlperf.contract.run import Unsupported
from dlperf.contract.timer import perf_counter
from dlperf.scenarios import Metric, early_return, evaluated, train

TITLE = "time to quality"
TRAINS = True
COUNTED = True  # rates follow a schedule
QUEUED = True
CURVED = True
MARKED: Dict[str, float] = {}  # no latencies


@dataclasses.dataclass(frozen=True)
class Run(contract.Run):
    """What a rank is told beside, in order to prove its tests.

    weights_dir: the folder for weights, "" for none. target: a value of the workload's score.
    """

    weights_dir: str = ""
    target: float = 0.0

    def save(self, path):
        """As contract.Run's without a folder: a certificate's rank, which loads that, has none."""
        known = dataclasses.asdict(self)
        if not self.weights_dir:
            del known["weights_dir"], known["target"]
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(known, stream)


RUN = Run


def prepare(run, implementation):
    work = implementation.training(run)
    if work.evaluate is None:
        name = "%s of %s" % (run.workload, run.framework)
        raise Unsupported("%s cannot test a model while it is trained, yet" % name)
    return evaluated.keeping(run, work) if run.weights_dir else work


def warm(run, work, handle, initial):
    """All that the window does, once before."""
    train.read(work, handle)
    for batch, _ in itertools.islice(work.batches.tests(), 1):
        work.evaluate(*(each * 0 for each in batch))


def window(run, work, stopwatch):
    """Train all epochs and test at the evaluations' steps; a rank's raw facts."""
    clock, step, mark = perf_counter, work.step, stopwatch.mark
    tested_at = set(evaluated_at(run.measured_steps, run.evaluations))
    handles, losses, points = [], [], []
    at_target = evaluated.AtTarget(run, work, stopwatch)
    computed = stopwatch.taken().user
    stopwatch.open()
    start = clock()
    mark()
    work.batches.begin()
    tests = None
    for number in range(1, run.measured_steps + 1):
        handles.append(step())
        mark()
        if number in tested_at:
            work.wait()
            trained, is_last = clock() - start - at_target.seconds, number == run.measured_steps
            if is_last:  # milliseconds, in the time of the last test
                computed = stopwatch.taken().user - computed - at_target.computed
                of_a_step = trained / number, computed / number
                read = functools.partial(train.read, work, handles[-1])
                early_return.check(run, read, *of_a_step, stopwatch.taken, at_rest=False)
            if tests is None:
                tests = work.batches.tests()
            drawn = evaluated.Drawn()
            sums, count = test(run, work, tests, drawn.see)
            losses += [work.loss(handle) for handle in handles] if work.loss else []
            handles = []
            tested = clock() - start - at_target.seconds
            points.append([number, trained, tested, sums, count])
            if run.weights_dir and not is_last:
                at_target.tested(number, drawn, sums, count)
    end = clock()
    stopwatch.ended()
    stopwatch.close()
    if not all(math.isfinite(value) for value in losses):
        raise ValueError("the loss is not finite: step %d" % (_first_wrong(losses) + 1))
    found = {"window": stopwatch.window(start, end), "loss": losses or None, "points": points}
    if run.weights_dir:
        found["evaluated"] = drawn.shown(run, counted)
        if at_target.drawn:
            found["at_target"] = at_target.drawn.shown(run, counted)
    return found


def _first_wrong(losses):
    return next(index for index, value in enumerate(losses) if not math.isfinite(value))


def evaluated_at(steps, evaluations):
    """The steps after which the model is tested: evenly spaced, the last one among them."""
    return [round(steps * (index + 1) / evaluations) for index in range(evaluations)]


def test(run, work, tests, see=None):
    """(sums over this rank's test samples, how many they are).

    A model is asked with zeros in place of the answers. Outputs are judged by the workload's facts,
    in NumPy: one program for all frameworks. Of a score that only all samples together have, facts
    have `kept` too: a rank tests them all. What is not in a batch's arrays, such as the text of
    paragraphs, the loader has as `known()`.
    Where a batch's rows are parts of a test sample, the facts' `judged` says how many there are.
    see(batch, own, outputs, counted): is told of each batch when it was answered and counted.
    """
    judge, sums, count, kept = workloads.of(run.workload).quality, [], 0, []
    for batch, own in tests:
        # whoever answers gets no answers, and none of these arrays
        outputs = work.evaluate(*workloads.asked(run.workload, batch, apart=True))
        found = counted(run, batch, own, outputs)
        if judge.kept:
            kept.append(found)
        else:
            sums = evaluated.added(sums, found)
        count += own
        if see:
            see(batch, own, outputs, found)
    if kept:
        sums = judge.tally(*zip(*kept), *work.batches.known())
        count = judge.judged(sums) if judge.judged else count
    return sums, count


def counted(run, batch, own, outputs):
    """What counts of a batch's answers: its sums, or what is kept of each sample.

    What is kept is no part of the outputs: whoever answered may have that array still.
    """
    import numpy as np  # not for the plan

    judge = workloads.of(run.workload).quality
    given = [outputs[:own]] + [each[:own] for each in batch]
    if not judge.kept:
        return judge.tally(*given)
    found = judge.kept(*given)
    return [each.copy() if np.may_share_memory(each, outputs) else each for each in found]


def summary(facts, case, settings):
    """What the record says of all ranks: `steps`, `samples`, and the `curve`.

    A point of the curve: after so many samples, so many seconds of training (tests before it
    included) and with its own test; `sums` are those of the facts' `tally` over `count` test
    samples, a part of which each rank had.
    """
    found = train.throughput_summary(facts, case, settings)
    found["steps"]["loss"] = train.mean_losses(facts)
    found["samples"] = samples_of(case, settings["measured_steps"])
    points = []
    for ranks in zip(*(each["points"] for each in facts)):
        points.append(
            {
                "samples": samples_of(case, ranks[0][0]),
                "seconds_trained": max(each[1] for each in ranks),
                "seconds_tested": max(each[2] for each in ranks),
                "sums": functools.reduce(evaluated.added, (each[3] for each in ranks if each[4])),
                "count": sum(each[4] for each in ranks),
            }
        )
    found["curve"] = points
    for name in ("evaluated", "at_target"):
        if all(name in each for each in facts):
            found[name] = [each[name] for each in facts]
    return found


def samples_of(case, steps):
    """Samples of so many updates. Batches of a second phase may have another size."""
    own = case.dimensions
    second = own.get("second_batch_size", 0)
    if not second:
        return steps * case.global_batch_size
    first = min(steps, own["first_steps"])
    replicas = case.global_batch_size // case.batch_size
    return first * case.global_batch_size + (steps - first) * second * replicas


def points_at(record):
    """The steps after which a record's model was tested."""
    settings = record["settings"]
    return evaluated_at(settings["measured_steps"], settings["evaluations"])


def quality_of(record):
    """What judges the record's model: a contract.workload.Quality."""
    return workloads.of(record["identity"]["workload"]).quality


def scores(record):
    """The test score at each point."""
    return [quality_of(record).value(point["sums"]) for point in record["curve"]]


def points(record):
    """The curve: dicts of samples, seconds (tests included), score as people see it, and the mean
    loss of the steps since the last test."""
    found, losses, scale = [], record["steps"]["loss"], quality_of(record).score.scale
    before = 0
    for point, step, value in zip(record["curve"], points_at(record), scores(record)):
        own = losses[before:step]
        before = step
        found.append(
            {
                "samples": point["samples"],
                "seconds": point["seconds_tested"],
                "score": scale * value,
                "training_loss": math.fsum(own) / len(own),
            }
        )
    return found


def reached(record):
    """The first point at which the target is met; None where it never is."""
    return first_at(record, record["settings"]["target"])


def first_at(record, target):
    """The same of any target."""
    score = quality_of(record).score
    for point, value in zip(record["curve"], scores(record)):
        if score.reached(value, target):
            return point
    return None


def final(record, case):
    return quality_of(record).score.scale * scores(record)[-1]


def beside_the_score():
    """Metrics of the last test beside the score, of each workload that has some."""
    return [
        Metric(
            name,
            score.unit,
            score.better,
            "Final " + score.name,
            functools.partial(_final_of, value, score.scale),
            workloads=(workload,),
        )
        for workload in workloads.NAMES
        if workloads.of(workload).quality
        for name, (score, value) in workloads.of(workload).quality.more.items()
    ]


def _final_of(value, scale, record, case):
    return scale * value(record["curve"][-1]["sums"])


def best(record, case):
    score = quality_of(record).score
    return score.scale * (min if score.better == "lower" else max)(scores(record))


def seconds_to_target(record, case):
    point = reached(record)
    return point and point["seconds_tested"]


def samples_to_target(record, case):
    point = reached(record)
    return point and float(point["samples"])


def training_seconds(record, case):
    """Without the tests."""
    found, before = 0.0, 0.0
    for point in record["curve"]:
        found += point["seconds_trained"] - before
        before = point["seconds_tested"]
    return found


def final_training_loss(record, case):
    """The mean loss of the steps since the last test but one."""
    return points(record)[-1]["training_loss"]


def first_phase_seconds(record, case):
    """The same until the last step of the first phase; None where no test stands behind that."""
    found, before = 0.0, 0.0
    for point, step in zip(record["curve"], points_at(record)):
        found += point["seconds_trained"] - before
        before = point["seconds_tested"]
        if step == record["identity"]["first_steps"]:
            return found
    return None


def second_phase_seconds(record, case):
    first = first_phase_seconds(record, case)
    return first and training_seconds(record, case) - first


def throughput(record, case):
    """Of training alone."""
    return record["curve"][-1]["samples"] / training_seconds(record, case)


#: Of a training in two phases: sizes that no other scenario has.
SIZES = ("first_steps", "second_length", "second_batch_size")
#: Workloads whose trainings have two phases: their facts say how long the first one is.
PHASED = tuple(name for name in workloads.NAMES if "first_steps" in workloads.dimensions(name))
MISSED = "the target was not reached"
UNTESTED = "no evaluation stands at the end of the first phase"
METRICS = (
    Metric("score", "{score_unit}", "score", "Final {score}", final),
    Metric("seconds_to_target", "s", "lower", "Time to target", seconds_to_target, lacking=MISSED),
    Metric(
        "samples_to_target",
        "{samples}",
        "lower",
        "Samples to target",
        samples_to_target,
        lacking=MISSED,
    ),
    Metric("score_best", "{score_unit}", "score", "Best {score}", best),
    *beside_the_score(),
    Metric("throughput", "{samples}/s", "higher", "Throughput", throughput, True),
    Metric("training_seconds", "s", "lower", "Time of training alone", training_seconds),
    Metric(
        "first_phase_seconds",
        "s",
        "lower",
        "Time of the first phase alone",
        first_phase_seconds,
        lacking=UNTESTED,
        workloads=PHASED,
    ),
    Metric(
        "second_phase_seconds",
        "s",
        "lower",
        "Time of the second phase alone",
        second_phase_seconds,
        lacking=UNTESTED,
        workloads=PHASED,
    ),
    Metric(
        "final_training_loss",
        "{score_unit}",
        "lower",
        "Final loss of training",
        final_training_loss,
        workloads=PHASED,
    ),
    Metric("memory", "GiB", "lower", "Peak memory per device", train.memory),
    Metric("energy", "J/{sample}", "lower", "Energy per sample", train.energy),
)
SHOWN = ("score", "seconds_to_target", "samples_to_target")
