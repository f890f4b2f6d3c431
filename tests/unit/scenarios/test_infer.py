"""Inference: percentiles of latency, and the check that every batch got its own outputs."""

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
from user_time import compute

from dlperf import plan, workloads
from dlperf.scenarios import early_return, infer, metrics

BATCHES = [np.random.RandomState(seed).standard_normal((2, 10)) for seed in range(40)]


@pytest.mark.parametrize(
    "percent, least", [(50, 6), (90, 36), (95, 72), (99, 368)], ids=lambda value: str(value)
)
def test_a_percentile_that_too_few_batches_support_is_not_told(percent, least):
    assert infer.percentile([1.0] * (least - 1), percent / 100) is None
    assert infer.percentile([1.0] * least, percent / 100) == 1000


def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed():
    seconds = [each / 1000 for each in range(1000, 0, -1)]
    found = [infer.percentile(seconds, share / 100) for share in (50, 90, 95, 99)]
    assert found == [500, 900, 950, 990]


def test_latency_is_lower_the_better_and_throughput_comes_first():
    found = metrics("infer")
    assert next(iter(found)) == "throughput"
    assert {each.better for name, each in found.items() if "latency" in name} == {"lower"}
    record = {"latency": {"ranks": [{"seconds": [0.5] * 3}, {"seconds": [1.5]}]}}
    assert found["latency_mean"].value(record, None) == 750
    assert found["latency_max"].value(record, None) == 1500
    assert found["latency_p50"].value(record, None) is None


def work_of(answer):
    """What `check` asks of an implementation: batches by number, and an answer to each."""
    coming = itertools.count(len(BATCHES) // 2)
    batches = SimpleNamespace(
        distinct=len(BATCHES) // 2,
        order=list(range(len(BATCHES) // 2)),
        batch=lambda number: (BATCHES[number],),
        next=lambda: (BATCHES[next(coming)],),
    )
    return SimpleNamespace(batches=batches, answer=answer)


def timed(numbers, outputs=None):
    """Pairs as of `check`, of outputs that may be those of other batches."""
    given = numbers if outputs is None else outputs
    return [
        (number, infer.fingerprint(3 * BATCHES[other]))
        for number, other in zip(numbers, given, strict=True)
    ]


def test_each_batch_has_its_own_outputs_where_it_comes_again_too():
    found = {"queued": timed([0, 1, 2, 2, 0, 1]), "answered": timed(range(3, 9))}
    infer.check(work_of(lambda batch: 3 * batch), **found)


@pytest.mark.parametrize(
    "outputs, said",
    [
        ([0] * 6, "queued: different batches get the same outputs"),  # the first one's, kept
        ([0, 1, 2, 4, 4, 5], "queued: different batches get the same outputs"),  # one left out
        (range(1, 7), "queued batch . has not its own outputs"),  # each the next one's
    ],
    ids=["kept", "left out", "late"],
)
def test_outputs_of_another_batch_are_an_error(outputs, said):
    with pytest.raises(RuntimeError, match=said):
        infer.check(work_of(lambda batch: 3 * batch), queued=timed(range(6), outputs))


def test_outputs_that_no_input_changes_are_an_error():
    constant = [(number, infer.fingerprint(np.ones(5))) for number in range(8)]
    with pytest.raises(RuntimeError, match="different batches get the same outputs"):
        infer.check(work_of(lambda batch: np.ones(5)), queued=constant)


def test_outputs_that_are_not_finite_are_an_error():
    with pytest.raises(ValueError, match="not finite"):
        infer.fingerprint(np.array([1.0, np.nan]))


def config(**own):
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "scenarios": ["infer"]}
    return plan.load(
        {
            "round": "mine",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {"bert": {**section, **own}},
            "topologies": ["1n1d", "1n2d"],
        }
    )


def test_a_round_infers_with_batches_and_steps_of_its_own():
    own = {"batch_sizes": {"fp32": [1, 2]}, "steps": {"warmup": 20, "measured": 400}}
    asked = config(scenarios=["train", "infer"], infer=own)
    cases = plan.expand(asked)
    sizes = {(case.scenario, case.batch_size) for case in cases}
    assert sizes == {("train", 8), ("infer", 1), ("infer", 2)}
    steps = {
        case.scenario: plan.document(case, asked, 1)["settings"]["measured_steps"] for case in cases
    }
    assert steps == {"train": 100, "infer": 400}


def test_a_precision_without_batch_sizes_of_its_own_is_named():
    own = {"batch_sizes": {"fp32": [1]}}
    both = {"precisions": ["fp32", "amp"], "batch_sizes": {"fp32": [8], "amp": [8]}}
    with pytest.raises(plan.ConfigError, match=r"bert\.infer\.batch_sizes\.amp.*is missing"):
        config(infer=own, **both)


def test_how_a_model_is_trained_does_not_multiply_its_inferences():
    asked = config(scenarios=["train", "infer"], layouts=[{}, {"accumulation": 2}])
    cases = [case for case in plan.expand(asked) if case.scenario == "infer"]
    assert [case.name for case in cases] == [
        "infer-fp32-1n1d-b8-synthetic",
        "infer-fp32-1n2d-b8-synthetic",
    ]
    assert {case.certificate("cpu") for case in cases} == {
        "certificates/bert/pytorch/cpu-fp32-infer-1.json"
    }


def test_a_page_without_an_inference_is_unsupported(monkeypatch):
    monkeypatch.setattr(
        workloads, "implements", lambda workload, framework, scenario="train": scenario == "train"
    )
    (case, _) = plan.expand(config())
    assert case.unsupported == "its implementation has no inference yet"


def test_a_frameworks_own_reader_does_not_feed_an_inference():
    asked = plan.load(
        {
            "round": "mine",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {
                "resnet50": {
                    "scenarios": ["infer"],
                    "precisions": ["fp32"],
                    "batch_sizes": {"fp32": [1]},
                    "data": ["sample_native"],
                }
            },
            "topologies": ["1n1d"],
        }
    )
    (case,) = plan.expand(asked)
    assert "shared loader" in case.unsupported


class Alone:
    """The stopwatch of a rank without others, for so many steps."""

    def __init__(self, steps):
        self.steps = self.asked = steps

    def open(self):
        pass

    mark = ended = close = open

    def taken(self):
        return early_return.Taken(time.process_time(), time.process_time())

    def meet(self, name):
        pass

    def window(self, *times):
        return times


def queueing(seconds):
    """An inference whose outputs take so much work after `wait` returned."""
    work, waited = work_of(lambda batch: 3 * batch), []
    work.batches.pooled = True
    turns = itertools.cycle(BATCHES[:20])

    def outputs(handle):
        if not waited:
            compute(seconds)
            waited.append(True)
        return 3 * handle

    work.step, work.wait, work.outputs = lambda: next(turns), lambda: None, outputs
    return work


def test_outputs_are_plain_arrays_and_none_is_computed_when_it_is_looked_at():
    run = SimpleNamespace(rank=0, device="cpu", data="synthetic", cores=[0])
    work = queueing(0)
    work.outputs = lambda handle: (3 * handle).view(np.recarray)
    with pytest.raises(TypeError, match="no NumPy array: recarray"):
        infer.window(run, work, Alone(8))
    work = queueing(0)

    def outputs(handle):
        compute(0.02)  # a little of each, and of the last one no more than of others
        return 3 * handle

    seen = {}

    def remembered(handle):
        if id(handle) not in seen:
            seen[id(handle)] = outputs(handle)
        return seen[id(handle)]

    for lazy in (remembered, outputs):
        work.outputs = lazy
        with pytest.raises(RuntimeError, match="`wait` returned .* s too early"):
            infer.window(run, work, Alone(4))


def test_of_many_outputs_some_are_kept_and_nobody_knows_which(monkeypatch):
    monkeypatch.setattr(infer, "KEPT_BYTES", 10 * BATCHES[0].nbytes)
    found = set()
    for _ in range(30):
        kept = infer.Answers()
        for batch in BATCHES:
            kept.add(batch)
        places = [number for number, _ in kept.kept_of(range(100, 140))]
        assert 1 <= len(places) <= 10 and len(kept.fingerprints) == 40
        found.update(places)
    assert found == set(range(100, 140))


def test_a_wait_that_waits_for_nothing_is_an_error():
    run = SimpleNamespace(rank=0, device="cpu", data="synthetic", cores=[0])
    assert len(infer.window(run, queueing(0), Alone(8))["latency"]["seconds"]) == 8
    with pytest.raises(RuntimeError, match="`wait` returned .* s too early"):
        infer.window(run, queueing(0.2), Alone(8))
