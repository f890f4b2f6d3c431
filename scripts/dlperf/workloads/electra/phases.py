"""The two phases of a training to a quality, as NVIDIA's pre-training has them.

One training, one set of weights: its second phase goes on from the first one's weights and moments,
with longer sequences and another number of them (input.py gives both), rates of its own
(facts.schedule), and an optimiser that counts its steps anew (TensorFlow2/LanguageModeling/ELECTRA,
run_pretraining.py --phase2). In: a Run, and an implementation's Work. Out: the same, of two phases;
of other scenarios as they are.
"""

import dataclasses

from dlperf.loaders.prefetch import Batches


def told(run):
    """The run whose reader knows how many batches an update takes, and so where a phase ends."""
    if run.scenario != "quality":
        return run
    return dataclasses.replace(run, dimensions=dict(run.dimensions, micro_steps=run.accumulation))


def alone(run):
    """A run of each phase, which knows of no other one."""
    first, second = run.dimensions["sequence_length"], run.dimensions["second_length"]
    sizes = (run.batch_size, run.dimensions["second_batch_size"] or run.batch_size)
    return [
        dataclasses.replace(
            run,
            batch_size=size,
            dimensions=dict(
                run.dimensions, sequence_length=length, second_length=length, second_batch_size=0
            ),
        )
        for length, size in zip((first, second), sizes)
    ]


def work(run, made, count_anew):
    """The Work of two phases: count_anew() is called before the second one's first step.

    It makes the optimiser count its steps from 0 again, of which the correction of its moments
    depends, and leaves the moments; it must not wait for the device.
    """
    if run.scenario != "quality":
        return made
    step, restart, first, done = made.step, made.restart, run.dimensions["first_steps"], 0

    def step_in_phase():
        nonlocal done
        if done == first:
            count_anew()
        done += 1
        return step()

    def restart_in_first(arrays):
        nonlocal done
        done = 0
        restart(arrays)

    return dataclasses.replace(made, step=step_in_phase, restart=restart_in_first)


def joined(run, train, rates):
    """One Work of both phases, for a framework whose step is a program of one shape.

    train(run, rates): the Work of a phase, whose run it is given, by the framework's own `train`;
    both train the same weights by the same optimiser. rates: of all steps. Steps on noise are one
    of each phase, so that both programs have run before the clock starts.
    """
    rates, noises = Rates(rates), run.warmup_steps
    works = [train(each, rates) for each in apart(run)]
    batches = InTurn([each.batches for each in works], run.dimensions["first_steps"])

    def step():
        nonlocal noises
        if noises:
            noises -= 1
            works[0].step()
            return works[1].step()
        return works[batches.taken()].step()

    def restart(arrays):
        for each in works:
            each.restart(arrays)
        rates.restart()

    own = {"step": step, "restart": restart, "batches": batches, "evaluate": works[1].evaluate}
    return dataclasses.replace(works[0], **own)


def apart(run):
    """A run of each phase, with a reader that begins where its phase does."""
    steps = run.dimensions["first_steps"]
    first = min(steps, run.measured_steps)
    counts, skipped = (first, run.measured_steps - first), steps * run.global_batch_size
    return [
        dataclasses.replace(
            own, measured_steps=count, dimensions=dict(own.dimensions, skipped=before)
        )
        for own, count, before in zip(alone(run), counts, (0, skipped))
    ]


class Rates:
    """The rates of steps that several Works take, one after the other, whatever each counts."""

    def __init__(self, rates):
        self._rates, self._next = rates, 0

    def __len__(self):
        return len(self._rates)

    def __getitem__(self, _):
        rate = self._rates[min(self._next, len(self._rates) - 1)]
        self._next += 1
        return rate

    def restart(self):
        self._next = 0


class InTurn(Batches):
    """The batches of two readers: so many of the first one's, and then the second one's."""

    def __init__(self, readers, count):
        self._readers, self._left, self.parity = readers, count, readers[0].parity

    def taken(self):
        """The number of the reader, 0 or 1, of which a batch is taken now: a step takes one."""
        self._left -= 1
        return int(self._left < 0)

    def next(self):
        return self._readers[self.taken()].next()

    def tests(self):
        return self._readers[1].tests()

    def fill(self):
        for each in self._readers:
            each.fill()

    def begin(self):
        for each in self._readers:
            each.begin()

    def close(self):
        for each in self._readers:
            each.close()

    @property
    def waited_seconds(self):
        return sum(each.waited_seconds for each in self._readers)

    @property
    def first_batch_sha256(self):
        return self._readers[0].first_batch_sha256
