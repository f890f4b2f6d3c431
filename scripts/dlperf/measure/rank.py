"""One rank of a repetition: prepare, warm up, meet, time, wait, meet, and write the raw facts.

    python -m dlperf.measure.rank [--undrawn] SPEC

SPEC is the Run as JSON. The raw facts are written to `Run.result`, a JSON file that the stopwatch
reads. --undrawn: of a spot run, with the proof's `undrawn` constants in the facts.
"""

import dataclasses
import functools
import json
import os
import resource
import sys
import traceback

from dlperf import frameworks, scenarios, workloads
from dlperf.contract import files
from dlperf.contract.run import Unsupported
from dlperf.contract.timer import perf_counter, queued
from dlperf.measure import answers, beside, given, host, memory_words, weights
from dlperf.measure.meeting import Guest
from dlperf.scenarios import early_return


def main(spec, undrawn=False):
    watch = beside.Watch()
    with open(spec, encoding="utf-8") as stream:
        fields = json.load(stream)
    run = scenarios.run_class(fields)(**fields)
    changes = workloads.proof(run.workload).undrawn if undrawn else {}
    try:
        with workloads.settings(run.workload, changes):
            result = measure(run, watch)
    except BaseException as error:  # the stopwatch must be told of every failure, including Ctrl-C
        traceback.print_exc()
        result = failure(error)
    files.write(run.result, json.dumps(result))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: some frameworks hang or abort in their own exit handlers (MindSpore, Horovod,
    # gloo). All results are on disk already.
    os._exit(0 if result["status"] == "ok" else 1)


def failure(error):
    text = "%s: %s" % (type(error).__name__, error)
    if isinstance(error, Unsupported):
        return {"status": "unsupported", "reason": str(error)}
    memory = isinstance(error, MemoryError) or memory_words.says(text)
    return {"status": "oom" if memory else "crashed", "reason": text[:2000]}


def measure(run, watch):
    """Return the rank's raw facts: steps, window, memory, parity, and what is the scenario's.

    watch: a beside.Watch, from before anything of the framework was imported.
    """
    guest = Guest(run.meeting, run.rank)
    guest.phase("start")
    framework = frameworks.load(run.framework)
    framework.start(run)
    guest.phase("build")
    scenario = scenarios.load(run.scenario)
    work = scenario.prepare(run, workloads.load(run.workload, run.framework))
    count = workloads.parameter_count(run.workload, run.dimensions)
    is_split = workloads.is_split(run.workload, run.dimensions, run.layout.mesh(run.ranks))
    expected = workloads.parameter_count_of_rank(run) if is_split else count
    if work.parameters != expected:
        raise ValueError(
            "%s of %s has %d trainable parameters%s, not %d: this is another model"
            % (
                run.workload,
                run.framework,
                work.parameters,
                " on rank %d" % run.rank if is_split else "",
                expected,
            )
        )

    restarts = scenario.TRAINS and not frameworks.of(run.framework).counted
    if restarts and work.restart is None:
        raise ValueError(
            "%s of %s has no `restart`, by which each window begins from new weights "
            "(dlperf/contract/work.py)" % (run.workload, run.framework)
        )

    # of what is told there, the implementation gets none
    warmup_steps, windows, trial_steps = guest.wait("orders")
    before = warmup_steps + trial_steps
    work.batches.expect((before + sum(steps for _, steps in windows)) * run.accumulation)
    by_rows, timed = workloads.drawn_by_rows(run), not scenario.CURVED
    start = functools.partial(workloads.Initial, run.workload, run.dimensions)
    initial = start(run.seed, run.data_dir, by_rows, timed)
    guest.note("write")
    work.weights.write(initial)
    guest.note("written")

    guest.phase("warmup")
    warmup_started = perf_counter()
    handle = None
    for _ in range(warmup_steps):
        handle = work.step()
    work.wait()
    taken_before = warmup_steps + (scenario.warm(run, work, handle, initial) or 0) + trial_steps
    warmup_seconds = perf_counter() - warmup_started

    asked = [steps for _, steps in windows]
    # a spot run has the trial too, which else would tell it apart, and its windows as told before
    paced = timed_steps(run, scenario, work, guest, trial_steps) if trial_steps else None
    if paced is not None:
        ((seed, _),) = windows
        windows = [(seed, paced)]
        work.batches.expect((before + paced) * run.accumulation)
        work.batches.fill()

    shown = []
    for (seed, steps), least in zip(windows, asked):
        work.batches.redraw(seed, steps if scenario.QUEUED else 0)
        if restarts:
            initial = start(seed, run.data_dir, by_rows, timed)
            guest.note("restart")
            work.restart(initial)
        work.wait()  # copies of weights and batches are no part of the window
        if restarts:
            guest.note("restarted")
            early_return.check_restart(run, functools.partial(taken, guest))
            guest.note("rested")
        warmup_peak = frameworks.reset_peak(run.framework, run)
        stopwatch = Stopwatch(run, framework, work, guest, steps, least, taken_before)
        facts = scenario.window(run, work, stopwatch)
        signs, kept = guest.wait("signs"), facts.pop("kept", None)
        if signs is not None and scenario.TRAINS:
            shown.append(weights.shown(run, initial, work.weights, signs, facts["loss"]))
            if work.batches.on_device:
                shown[-1]["batches"] = given.told(work.batches.given())
        elif signs is not None:
            shown.append(answers.shown(signs, kept))
    facts.update(stopwatch.facts(), warmup_seconds=warmup_seconds, shown=shown)

    guest.phase("stop")
    facts["memory"] = dict(
        framework.memory(run),
        rank=run.rank,
        host_peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    if warmup_peak is not None:
        facts["memory"]["device_warmup_peak_bytes"] = warmup_peak
    parity = {
        "precision": run.precision,
        "compiler": run.compiler,
        "threads": run.cores_per_device if run.device == "cpu" else None,
        "mkl_cpu_type": os.environ.get("MKL_DEBUG_CPU_TYPE"),
        "parameters": count,  # of the whole model, of which a rank's part was checked above
        "network_interface": run.interface if run.distributed else None,
        # The same for all frameworks that have the same input. None for a framework's own reader.
        "data_digest": work.batches.first_batch_sha256,
    }
    parity.update(work.batches.parity)
    parity.update(framework.parity(run))
    parity.update(work.parity)
    facts["parity"] = parity
    if scenario.TRAINS:
        names = [each.name for each in workloads.parts_of(run)]
        facts["weights"], parts = weights.trained(run.rank, initial, work.weights, names)
        facts["parts"] = [dataclasses.astuple(each) for each in parts]
    # large files are read again where this was a spot run, which is told when it is over
    facts["ran_beside"] = watch.facts(frameworks.of(run.framework), anew=bool(shown))
    guest.wait("measured")  # no rank may end while another one still needs the group
    work.batches.close()
    framework.stop(run)
    facts["status"] = "ok"
    return facts


def timed_steps(run, scenario, work, guest, trial_steps):
    """How many steps the window has, as the stopwatch tells all ranks by the pace of a trial; None:
    as many as it told before."""
    guest.phase("trial")
    guest.wait("trial")
    for _ in range(trial_steps):
        handle = work.step()
    work.wait()
    return guest.wait("paced", scenario.most_steps(run, work, handle))


def taken(guest):
    return early_return.Taken(*guest.note("taken"))


class Stopwatch:
    """Times a scenario's window: barriers, and a clock for steps.

    Between `open` and `ended` it only `mark`s the steps. steps: how many the window has. asked: how
    many the settings ask for, which it may have more of. batches_before: how many an inference took
    before its window.
    """

    def __init__(self, run, framework, work, guest, steps, asked, batches_before=0):
        self._run, self._work, self._guest = run, work, guest
        self.steps, self.asked, self.batches_before = steps, asked, batches_before
        self._timer = framework.step_timer(run)
        self.mark = self._timer.mark

    def open(self):
        """Pass the barrier before the window."""
        self._waited = self._work.batches.waited_seconds
        self._guest.phase("window")
        self._guest.wait("window")
        self._queued = queued()

    def ended(self):
        """Say that the window has just ended: by this message, the stopwatch ends it."""
        before, self._queued = self._queued, queued()
        if self._queued is not None:
            self._queued -= before or 0.0
        self._guest.note("ended")

    def taken(self):
        """What this rank's processes have taken so far, as the stopwatch reads it."""
        return taken(self._guest)

    def close(self):
        """Pass the barrier after the window."""
        self._guest.wait("end")

    def meet(self, name):
        """Pass a barrier of another window."""
        self._guest.wait(name)

    def window(self, start, end):
        """This rank's own window, in seconds of its own clock; the stopwatch's is what counts."""
        own = {"rank": self._run.rank, "node": host.name(), "queued": self._queued}
        return dict(own, start=start, end=end)

    def facts(self):
        """What was measured in addition to the window."""
        return {
            "clock": self._timer.clock,
            "seconds": self._timer.seconds(),
            "loader_seconds": self._work.batches.waited_seconds - self._waited,
        }


if __name__ == "__main__":
    main(sys.argv[-1], "--undrawn" in sys.argv[1:-1])
