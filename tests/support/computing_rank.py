"""A real rank (dlperf.measure.rank) whose framework is NumPy's hashing: each step takes user time.

    python -m computing_rank KIND SPEC

KIND names what its page does beside or instead of that; the functions below say it in full. A test
of the stopwatch has a dozen of them in the time that a framework takes to be imported.
"""

import dataclasses
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
from user_time import compute

from dlperf import frameworks, workloads
from dlperf.contract.timer import HostTimer
from dlperf.contract.work import Work
from dlperf.measure import rank

STEP = 0.05
#: Of another process than this one.
BUSY = "import time\nend = time.process_time() + %g\nwhile time.process_time() < end: pass"


class Weights:
    def __init__(self):
        self.arrays = {}

    def write(self, arrays):
        self.arrays = {name: np.array(array) for name, array in arrays.items()}

    def read(self):
        return iter(self.arrays.items())


class Page:
    """An honest implementation. `finish` is called where the window ends."""

    def __init__(self):
        self.weights, self.restarted, self.stepped = Weights(), False, False

    def training(self, run):
        self.run = run
        batches = SimpleNamespace(
            waited_seconds=0.0,
            first_batch_sha256="0" * 64,
            parity={},
            expect=lambda count: None,
            redraw=lambda seed, steps: None,
            fill=lambda: None,
            close=lambda: None,
        )
        count = workloads.parameter_count(run.workload, run.dimensions)
        return Work(
            *(self.step, self.wait, lambda handle: 0.5, count, batches, {}, self.weights),
            restart=self.restart,
        )

    def step(self):
        self.stepped = self.restarted
        self.compute()
        for array in self.weights.arrays.values():
            array += 1e-3
        return 0.5

    def compute(self):
        compute(STEP)

    def wait(self):
        """Called behind the warm-up, the restart and the window."""
        if self.stepped:
            self.stepped = self.restarted = False
            self.finish()

    def finish(self):
        pass

    def restart(self, arrays):
        self.weights.write(arrays)
        self.restarted = True


# Honest ones


class Honest(Page):
    pass


class TwoThreads(Page):
    """Half of each step is another thread's, which was there before."""

    def training(self, run):
        from concurrent.futures import ThreadPoolExecutor

        self.pool = ThreadPoolExecutor(2)
        return super().training(run)

    def compute(self):
        list(self.pool.map(compute, [STEP / 2, STEP / 2]))


class Helper(Page):
    """It forks a process at its start, which waits for work, as readers of data do."""

    def training(self, run):
        self.pool = multiprocessing.get_context("fork").Pool(1)
        self.pool.apply(os.getpid)
        return super().training(run)


class ActiveWait(Page):
    """A thread looks for work for 0.2 s after each step, as Intel's OpenMP does."""

    def training(self, run):
        self.until = 0.0
        threading.Thread(target=self.look, daemon=True).start()
        return super().training(run)

    def look(self):
        while True:
            while time.perf_counter() < self.until:
                sum(range(100))
            time.sleep(0.001)

    def step(self):
        handle = super().step()
        self.until = time.perf_counter() + 0.2
        return handle


class Sleeping(Page):
    """It waits for something else than its processor, as for a network."""

    def step(self):
        time.sleep(STEP)
        return super().step()


# Clocks of a page's own


class SlowClock(Page):
    """When its page is imported, the clocks of Python's modules become slower."""

    def __init__(self):
        super().__init__()
        for name in ("perf_counter", "time", "monotonic"):
            setattr(time, name, slower(getattr(time, name)))


class SlowTimer(Page):
    """It puts a slower clock where the scenario looks for its own."""

    def __init__(self):
        super().__init__()
        from dlperf.contract import timer
        from dlperf.scenarios import early_return, train

        for module in (timer, train, early_return):
            module.perf_counter = slower(module.perf_counter)


def slower(clock):
    start = clock()
    return lambda: start + (clock() - start) / 2


# More than the case's cores


class ThreadElsewhere(Page):
    """Steps are computed by a thread that may run on all cores, while the window lasts."""

    def compute(self):
        thread = threading.Thread(target=self.compute_elsewhere)
        thread.start()
        thread.join()

    def compute_elsewhere(self):
        os.sched_setaffinity(0, range(os.cpu_count()))
        super().compute()


class ChildElsewhere(Page):
    """A process that may run on all cores computes with it, and is ended behind the window."""

    child = None

    def training(self, run):
        work = super().training(run)
        work.loss = self.loss
        return work

    def loss(self, handle):
        if self.child:
            self.child.kill()
            self.child.wait()
        return 0.5

    def step(self):
        if self.restarted and not self.child:
            self.child = self.start()
        return super().step()

    def start(self):
        found = subprocess.Popen(elsewhere_command(60))
        while len(os.sched_getaffinity(found.pid)) == 1:
            time.sleep(0.01)
        return found


class LeftElsewhere(ChildElsewhere):
    """The same by a process that leaves its parent and its session, and is not ended."""

    def start(self):
        return subprocess.run(["setsid", "-f", *elsewhere_command(60)], check=True)

    def loss(self, handle):
        return 0.5


def elsewhere_command(seconds):
    everywhere = "import os; os.sched_setaffinity(0, range(os.cpu_count()))\n"
    return [sys.executable, "-c", everywhere + BUSY % seconds]


# Work that is not in the window


class ThreadBehind(Page):
    """A thread goes on behind `wait` with what no read waits for."""

    def finish(self):
        threading.Thread(target=compute, args=[20 * STEP], daemon=True).start()


class ChildBehind(Page):
    """A process goes on behind `wait`."""

    def finish(self):
        subprocess.Popen([sys.executable, "-c", BUSY % (20 * STEP)])


class LeftBehind(Page):
    """A process that left its parent and its session goes on behind `wait`."""

    def finish(self):
        subprocess.run(["setsid", "-f", sys.executable, "-c", BUSY % (20 * STEP)], check=True)


class AtTheRead(Page):
    """The loss is computed by another process when it is read."""

    def training(self, run):
        work = super().training(run)
        left = itertools.count()

        def loss(handle):
            if next(left) == 1:  # behind the one of the warm-up
                subprocess.run([sys.executable, "-c", BUSY % (10 * STEP)], check=True)
            return 0.5

        work.loss = loss
        return work


class Spinning(Page):
    """A thread computes all the time, whatever is asked of it."""

    def training(self, run):
        threading.Thread(target=compute, args=[3600], daemon=True).start()
        return super().training(run)


class ThreadBefore(Page):
    """A restart begins with the steps, in a thread."""

    def restart(self, arrays):
        super().restart(arrays)
        threading.Thread(target=compute, args=[30 * STEP], daemon=True).start()


class ChildBefore(Page):
    """A restart begins with the steps, in a process."""

    def restart(self, arrays):
        super().restart(arrays)
        subprocess.Popen([sys.executable, "-c", BUSY % (30 * STEP)])


class InRestart(Page):
    """A restart computes the steps before it returns."""

    def restart(self, arrays):
        super().restart(arrays)
        compute(30 * STEP)


class GoesOn(Page):
    """It cannot begin from new weights, which each window does."""

    def training(self, run):
        return dataclasses.replace(super().training(run), restart=None)


FRAMEWORK = SimpleNamespace(
    FRAMEWORK=frameworks.of("pytorch"),
    start=lambda run: None,
    stop=lambda run: None,
    step_timer=lambda run: HostTimer(),
    reset_peak=lambda run: None,
    memory=lambda run: dict.fromkeys(("device_peak_bytes", "device_total_peak_bytes")),
    parity=lambda run: {},
)

if __name__ == "__main__":
    kind = globals()[sys.argv[1]]
    frameworks.load = lambda name: FRAMEWORK
    workloads.load = lambda workload, framework: kind()  # as a page is imported
    rank.main(sys.argv[-1])
