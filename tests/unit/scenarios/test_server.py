"""An open loop: requests come as scheduled, and their latency counts from then."""

import dataclasses
import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
from in_framework import rank

from dlperf import frameworks, plan, scenarios, workloads
from dlperf.contract import case as contract
from dlperf.contract.case import Known
from dlperf.plan.cases import document
from dlperf.scenarios import server
from dlperf.workloads.cases import parse_case

BATCHES = [np.random.RandomState(seed).standard_normal((1, 10)) for seed in range(40)]


class Alone:
    """The stopwatch of a rank without others, for so many steps."""

    def __init__(self, steps):
        self.steps, self.batches_before = steps, 0

    def open(self):
        pass

    mark = ended = close = open

    def window(self, *times):
        return times


def serve(seconds, rate=200, measured=20, answer=lambda batch: 3 * batch):
    """The facts of a server whose n-th answer takes seconds(n)."""
    coming, count = itertools.count(), itertools.count()

    def answering(batch):
        time.sleep(seconds(next(count)))
        return answer(batch)

    batches = SimpleNamespace(
        distinct=0,
        pooled=True,
        batch=lambda number: (BATCHES[number],),
        next=lambda: (BATCHES[next(coming)],),
    )
    work = SimpleNamespace(batches=batches, answer=answering)
    run = SimpleNamespace(rank=0, seed=1, repetition=1, arrival_rate=rate)
    return server.window(run, work, Alone(measured))["server"]


def record(rate=200, **rank):
    return {"identity": {"arrival_rate": rate}, "server": {"ranks": [rank]}}


def test_requests_arrive_at_random_and_as_often_as_asked():
    due = server.schedule(1, 1, 0, 50, 20_000)
    gaps = np.diff([0.0, *due])
    assert gaps.min() > 0
    assert np.mean(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert np.std(gaps) == pytest.approx(1 / 50, rel=0.03)  # as a Poisson process's
    assert np.mean(gaps < np.log(2) / 50) == pytest.approx(0.5, abs=0.02)


def test_the_schedule_is_of_the_seed_the_repetition_and_the_rank():
    same = [server.schedule(1, 1, 0, 50, 5) for _ in range(2)]
    assert same[0] == same[1] == server.schedule(1, 1, 0, 50, 8)[:5]
    others = [(2, 1, 0, 50), (1, 2, 0, 50), (1, 1, 1, 50), (1, 1, 0, 51)]
    assert all(server.schedule(*other, 5) != same[0] for other in others)


def test_no_request_is_answered_before_it_is_due():
    found = serve(lambda number: 0.0, rate=300)
    late = [begun - due for due, begun in zip(found["due"], found["begun"], strict=True)]
    assert min(late) >= 0


def test_a_stall_counts_for_each_request_that_waits_behind_it():
    found = serve(lambda number: 0.3 if number == 5 else 0.0, rate=100, measured=20)
    waits = [end - due for due, end in zip(found["due"], found["ended"], strict=True)]
    service = [end - begun for begun, end in zip(found["begun"], found["ended"], strict=True)]
    behind = [each for each, due in enumerate(found["due"]) if 0 < due - found["begun"][5] < 0.2]
    assert len(behind) > 5
    assert all(waits[each] > 0.09 and service[each] < 0.05 for each in behind)


def test_an_answer_that_is_kept_is_an_error():
    kept = [3 * BATCHES[0]]
    with pytest.raises(RuntimeError, match="different batches get the same outputs"):
        calls = itertools.count()
        serve(lambda number: 0.0, answer=lambda b: kept[0] if next(calls) < 20 else 3 * b)


def test_requests_that_pile_up_have_no_latency():
    due = [0.01 * (each + 1) for each in range(400)]
    slow = [0.012 * (each + 1) for each in range(400)]
    piled = record(100, due=due, begun=slow, ended=[each + 0.012 for each in slow])
    assert server.utilisation(piled, None) == pytest.approx(120)
    assert server.saturated(piled) and server.all_seconds(piled) == []
    assert scenarios.metrics("server")["server_p50"].value(piled, None) is None


def test_a_queue_that_did_not_empty_again_has_no_latency():
    """A stall in the first half that lasts: utilisation is low, and the queue is never short."""
    due = [0.01 * (each + 1) for each in range(400)]
    begun = [each + 3 for each in due]
    stalled = record(100, due=due, begun=begun, ended=[each + 0.005 for each in begun])
    assert server.utilisation(stalled, None) == pytest.approx(50)
    assert server.saturated(stalled)


def test_latency_is_told_where_the_queue_empties():
    due = [0.01 * (each + 1) for each in range(400)]
    found = record(100, due=due, begun=due, ended=[each + 0.004 for each in due])
    metrics = scenarios.metrics("server")
    assert metrics["server_p99"].value(found, None) == pytest.approx(4)
    assert metrics["utilisation"].value(found, None) == pytest.approx(40)
    assert next(iter(metrics)) == "utilisation"


def config(rates=(50, 100), **own):
    section = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [8]},
        "scenarios": ["infer"],
        "infer": {"arrival_rate": list(rates), "steps": {"warmup": 20, "measured": 400}},
        **own,
    }
    return plan.load(
        {
            "round": "mine",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {"resnet50": section},
            "topologies": ["1n1d"],
        }
    )


def test_a_server_is_asked_for_by_the_rate_of_arrivals():
    asked = config()
    cases = plan.expand(asked)
    assert [case.name for case in cases] == [
        "infer-fp32-1n1d-b8-synthetic",
        "server-fp32-1n1d-b1-r50-synthetic",
        "server-fp32-1n1d-b1-r100-synthetic",
    ]
    assert all(parse_case(case.folder) == case and not case.unsupported for case in cases)
    assert document(cases[1], asked, 1)["settings"]["measured_steps"] == 400
    assert {case.certificate("cpu") for case in cases} == {
        "certificates/resnet50/pytorch/cpu-fp32-infer-1.json"
    }
    assert "server" not in {case.scenario for case in plan.expand(config(scenarios=["train"]))}


@pytest.mark.parametrize(
    "rates, said", [([0], "arrival_rate"), ([], "arrival_rate"), ([2.5], "arrival_rate")]
)
def test_a_rate_that_cannot_be_is_named(rates, said):
    with pytest.raises(plan.ConfigError, match=said):
        config(rates)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"arrival_rate": 0}, "identity.arrival_rate: 0; at least 1 in the scenario server"),
        ({"scenario": "infer"}, "identity.arrival_rate: 50; 0 but in the scenario server"),
    ],
)
def test_a_document_has_a_rate_where_and_only_where_a_server_is_timed(changes, said):
    asked = config()
    wanted = document(plan.expand(asked)[1], asked, 1)
    known = Known(
        workloads.NAMES, frameworks.NAMES, workloads.dimensions, lambda workload: ["synthetic"]
    )
    assert contract.problems(wanted, known) == []
    wanted["identity"].update(changes)
    assert contract.problems(wanted, known) == [said]


def test_a_rank_is_told_the_rate_and_gets_no_batch_twice():
    """The implementation is that of an inference."""
    fields = {**dataclasses.asdict(rank("pytorch")), "scenario": "server"}
    run = scenarios.run_class(fields)(**fields, arrival_rate=50, repetition=2)
    told = []
    server.prepare(run, SimpleNamespace(inference=told.append))
    assert (told[0].input.pool, told[0].arrival_rate) == (0, 50)
