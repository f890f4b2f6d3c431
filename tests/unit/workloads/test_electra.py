"""ELECTRA to a quality: two phases, the rates of both, and the loss that is scored."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import workloads
from dlperf.contract.work import Work
from dlperf.loaders.prefetch import Batches
from dlperf.workloads.electra import facts, phases

STANDARD = {name: each.standard for name, each in facts.DIMENSIONS.items()}


@dataclasses.dataclass
class SimpleRun:
    scenario: str
    dimensions: dict
    measured_steps: int
    warmup_steps: int
    batch_size: int = 4

    @property
    def global_batch_size(self):
        return 2 * self.batch_size


def run(steps=64, first=48, scenario="quality"):
    dimensions = dict(STANDARD, first_steps=first)
    return SimpleNamespace(scenario=scenario, measured_steps=steps, dimensions=dimensions)


def test_each_phase_warms_up_and_falls_to_nothing_by_the_root_of_what_is_left():
    rates = facts.schedule(run(10_933, 10_000))
    assert len(rates) == 10_933
    first, second = np.split(rates, [10_000])
    assert first[:3] == pytest.approx(6e-3 * np.array([1, 2, 3]) / 2000)
    assert first.max() == first[1999] == 6e-3
    assert first[2000 + 6000] == pytest.approx(6e-3 * 0.25**0.5)  # three quarters are gone
    assert second[0] == pytest.approx(4e-3 / 200) and second.max() == second[199] == 4e-3
    assert 0 < second[-1] < 4e-3 * 0.04


def test_shorter_phases_warm_up_over_the_same_share():
    first, second = np.split(facts.schedule(run()), [48])
    assert np.argmax(first) == 9 and np.argmax(second) == 2  # 10 of 48, 3 of 16
    assert second[0] < first[20], "the second one begins anew"


@pytest.mark.parametrize(("steps", "first"), [(2, 1), (3, 2), (4, 40)])
def test_the_shortest_trainings_have_a_rate_for_each_step(steps, first):
    rates = facts.schedule(run(steps, first))
    assert len(rates) == steps and all(0 < rate <= 6e-3 for rate in rates)


def test_a_throughput_run_has_a_constant_rate():
    assert facts.schedule(run(scenario="train")) is None


class Made:
    """A Work that notes what it is asked for."""

    def __init__(self):
        self.asked = []
        self.work = Work(
            step=lambda: self.asked.append("step"),
            wait=None,
            loss=None,
            parameters=0,
            batches=None,
            parity={},
            restart=lambda arrays: self.asked.append("restart"),
        )

    def anew(self):
        self.asked.append("anew")


def test_the_optimiser_counts_anew_once_before_the_first_step_of_the_second_phase():
    made = Made()
    work = phases.work(run(first=2), made.work, made.anew)
    for _ in range(5):
        work.step()
    assert made.asked == ["step", "step", "anew", "step", "step", "step"]


def test_a_new_start_is_in_the_first_phase():
    made = Made()
    work = phases.work(run(first=2), made.work, made.anew)
    for _ in range(3):
        work.step()
    work.restart({})
    made.asked.clear()
    for _ in range(3):
        work.step()
    assert made.asked == ["step", "step", "anew", "step"]


@dataclasses.dataclass
class Told:
    scenario: str
    dimensions: dict
    accumulation: int = 4


def test_a_reader_of_two_phases_is_told_how_many_batches_an_update_takes():
    own = Told("quality", dict(STANDARD))
    assert phases.told(own).dimensions == dict(STANDARD, micro_steps=4)
    assert own.dimensions == STANDARD
    train = Told("train", dict(STANDARD))
    assert phases.told(train) is train


def test_a_throughput_run_has_no_phases():
    made = Made()
    assert phases.work(run(scenario="train"), made.work, made.anew) is made.work


class Reader(Batches):
    """Batches that say whose they are, and which."""

    parity = {"data_loader": "shared"}

    def __init__(self, name):
        self.name, self.taken, self.asked = name, 0, []
        self.first_batch_sha256, self.waited_seconds = name, 1.0

    def next(self):
        self.taken += 1
        return self.name, self.taken

    def tests(self):
        return ["tests of " + self.name]

    def fill(self):
        self.asked.append("fill")

    def begin(self):
        self.asked.append("begin")

    def close(self):
        self.asked.append("close")


@pytest.fixture
def joined():
    """(a function that joins two Works of a run, what they were asked for, their runs)."""
    asked, runs = [], []

    def make(first=2, warmup=0, steps=5, rates=(1, 2, 3, 4, 5), **sizes):
        own = {"sequence_length": 16, "first_steps": first, "second_length": 24, **sizes}
        whole = SimpleRun(
            scenario="quality",
            dimensions=dict(STANDARD, **own),
            measured_steps=steps,
            warmup_steps=warmup,
        )

        def train(run, rates):
            runs.append(run)
            name, reader = "ab"[len(runs) - 1], Reader("ab"[len(runs) - 1])
            coming = itertools.count()

            def step():
                reader.next()
                asked.append(name + str(rates[min(next(coming), len(rates) - 1)]))

            return Work(
                step=step,
                wait=None,
                loss=None,
                parameters=0,
                batches=reader,
                parity={},
                restart=lambda arrays: asked.append(name + " restart"),
                evaluate=name,
            )

        return phases.joined(whole, train, list(rates))

    return make, asked, runs


def test_each_step_is_the_phases_at_the_next_rate(joined):
    make, asked, runs = joined
    work = make()
    for _ in range(5):
        work.step()
    assert asked == ["a1", "a2", "b3", "b4", "b5"]
    lengths = [(run.dimensions["sequence_length"], run.measured_steps) for run in runs]
    assert lengths == [(16, 2), (24, 3)]
    assert [run.dimensions["skipped"] for run in runs] == [0, 2 * 2 * 4]
    assert [run.batch_size for run in runs] == [4, 4]
    assert work.evaluate == "b" and work.batches.tests() == ["tests of b"]


def test_each_phase_has_batches_of_its_own_size(joined):
    make, _, runs = joined
    make(second_batch_size=3)
    assert [run.batch_size for run in runs] == [4, 3]
    assert [run.dimensions["skipped"] for run in runs] == [0, 2 * 2 * 4]
    # a phase knows of no other one, whoever reads its batches
    assert [run.dimensions["second_batch_size"] for run in runs] == [0, 0]


def test_both_programs_run_on_noise_and_the_first_phase_is_whole_behind_it(joined):
    make, asked, _ = joined
    work = make(warmup=2)
    for _ in range(2):
        work.step()
    assert [each[0] for each in asked] == ["a", "b", "a", "b"]
    work.restart({})
    asked.clear()
    for _ in range(4):
        work.step()
    assert asked == ["a1", "a2", "b3", "b4"]


def test_a_batch_that_is_taken_beside_the_steps_is_the_next_one(joined):
    make, _, _ = joined
    work = make(first=1)
    work.step()
    assert work.batches.next() == ("b", 1)
    work.step()
    assert work.batches.next() == ("b", 3)


def test_a_new_start_goes_on_with_the_batches_and_begins_with_the_rates(joined):
    make, asked, _ = joined
    work = make(first=1)
    for _ in range(3):
        work.step()
    work.restart({})
    work.step()
    assert asked[-3:] == ["a restart", "b restart", "b1"]


def test_two_readers_are_filled_begun_and_closed_together(joined):
    make, _, _ = joined
    batches = make().batches
    for name in ("fill", "begin", "close"):
        getattr(batches, name)()
    assert batches.waited_seconds == 2.0 and batches.first_batch_sha256 == "a"
    assert all(each.asked == ["fill", "begin", "close"] for each in batches._readers)


VOCABULARY = facts.VOCABULARY


@pytest.fixture
def evaluated():
    """Outputs of a sequence of 6 tokens, of which the last is padding, and its batch.

    Two places are chosen, and one is not: a true guess at 2, a wrong one at 4.
    """
    words = np.zeros((3, VOCABULARY))
    words[0, 70], words[1, 80], words[2, 5] = 2.0, 3.0, 100.0  # the last place is unused
    samples = np.array([70, 9, 2]) / facts.DRAWN_UNIT
    found = np.array([-1.0, -2.0, 0.5, -3.0, 1.5, 50.0])
    outputs = np.concatenate([words.ravel(), samples, found])[None].astype("float32")
    tokens = np.array([[2, 50, 4, 60, 4, 0]])
    mask = np.array([[1, 1, 1, 1, 1, 0]])
    positions, labels = np.array([[2, 4, 0]]), np.array([[70, 80, 2]])
    chosen = np.array([[1, 1, 0]], "float32")
    return outputs, (tokens, 0 * tokens, mask, positions, labels, chosen)


def test_the_loss_is_the_generators_and_50_times_the_discriminators(evaluated):
    outputs, batch = evaluated
    sums = facts.tally(outputs, *batch)
    log = [math.log(VOCABULARY - 1 + math.exp(top)) - top for top in (2.0, 3.0)]
    assert sums[:2] == pytest.approx([sum(log), 2])
    # of the tokens, only the one at 4 is another word
    signed = [-1.0, -2.0, 0.5, -3.0, -1.5]
    binary = [math.log1p(math.exp(each)) for each in signed]
    assert sums[2:] == pytest.approx([sum(binary), 5])
    assert facts.score(sums) == pytest.approx(sum(log) / 2 + 50 * sum(binary) / 5)
    assert facts.generator_loss(sums) == pytest.approx(sum(log) / 2)
    assert facts.discriminator_loss(sums) == pytest.approx(sum(binary) / 5)


def test_every_word_that_is_drawn_survives_float32():
    words = np.arange(VOCABULARY)
    given = (words / facts.DRAWN_UNIT).astype("float32")
    assert (np.rint(given.astype("float64") * facts.DRAWN_UNIT) == words).all()


def test_sums_add_up_over_batches(evaluated):
    outputs, batch = evaluated
    twice = facts.tally(np.repeat(outputs, 2, 0), *(np.repeat(each, 2, 0) for each in batch))
    assert twice == pytest.approx([2 * each for each in facts.tally(outputs, *batch)])


def test_a_discriminator_of_any_certainty_has_a_finite_loss(evaluated):
    outputs, batch = evaluated
    outputs[:, -6:] *= 1e4
    assert all(math.isfinite(each) for each in facts.tally(outputs, *batch))


def test_a_model_is_asked_without_the_labels(evaluated):
    _, batch = evaluated
    asked = workloads.asked("electra", batch)
    assert not asked[4].any()
    assert all((a == b).all() for a, b in zip(asked[:4], batch[:4], strict=True))


IDENTITY = {
    "scenario": "quality",
    "nodes": 1,
    "devices_per_node": 2,
    "layout": {},
    "batch_size": 16,
    "epochs": 4,
    "data": "sample",
    "sequence_length": 32,
    "first_steps": 31,
    "second_length": 64,
    "second_batch_size": 8,
}


def test_a_first_phase_that_leaves_no_second_one_is_refused():
    assert not facts.unsupported(IDENTITY)  # 4 x 256 of 32 each: 32 updates
    message = facts.unsupported(dict(IDENTITY, first_steps=32))
    assert message == "first_steps: 32 leaves none of 32 updates to the second phase"


def test_a_certificate_has_sizes_of_its_own():
    certified = {name: each for name, each in IDENTITY.items() if name != "epochs"}
    assert not facts.unsupported(dict(certified, first_steps=1000))
    assert not facts.unsupported(dict(certified, scenario="train"))


def test_a_step_of_one_length_has_its_reason():
    framework = "tensorflow1"
    case = {**IDENTITY, "compiler": "none", "precision": "fp32"}
    assert "one length of sequences" in facts.unsupported_in(framework, case)
    assert not facts.unsupported_in(framework, dict(case, scenario="train"))
    assert not workloads.implements("electra", framework, "quality")


def test_paddlepaddle_has_both_phases_in_fp32_on_one_device():
    case = {**IDENTITY, "compiler": "static", "precision": "fp32", "devices_per_node": 1}
    assert not facts.unsupported_in("paddlepaddle", case)
    for other in ({"devices_per_node": 2}, {"precision": "amp"}):
        assert facts.unsupported_in("paddlepaddle", {**case, **other})
        assert not facts.unsupported_in("paddlepaddle", {**case, **other, "scenario": "train"})


@pytest.mark.parametrize("name", ["first_steps", "second_length", "second_batch_size"])
def test_a_throughput_run_has_no_second_phase(name):
    train = dict(IDENTITY, **STANDARD, scenario="train")
    assert not facts.unsupported(train)
    assert name in facts.unsupported(dict(train, **{name: 48}))
