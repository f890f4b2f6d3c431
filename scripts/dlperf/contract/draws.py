"""What a round draws from the system's randomness, so that no implementation knows it beforehand.

A group's draw, results/<round>/checks/draws/<group>.json, is one number. A group are the cases that
differ in framework and compiler alone: so all of them get the same seeds. A repetition by hand
takes `--draw FILE` and gets the very numbers again.
"""

import dataclasses
import hashlib
import json
import os
from typing import List, NamedTuple

from dlperf.contract import files, strict_json

SCHEMA = "dlperf.draw/1"
#: Seeds have so many bits: every framework's random numbers take them, and a few more added to it.
BITS = 30
#: The short window of a spot run has 1 to so many steps: later ones rounding alone makes unlike.
MOST_REPLAYED = 2
#: What a window's batches of a framework's own reader may take that are kept for its replay.
KEPT_BYTES = 2**24


class Window(NamedTuple):
    """Steps from newly written weights, which are drawn from `seed`."""

    seed: int
    steps: int


class Orders(NamedTuple):
    """What ranks do, which they are told when their training is built.

    seed: of batches, of what a training draws itself, and of an inference's weights, told at once.
    shown: whether what the weights became is told tensor by tensor, or an inference's answers.
    trial_steps: behind the warm-up, whose pace says how many steps the only window of a repetition
    has: at least its own; 0: there is no trial.
    """

    seed: int
    warmup_steps: int
    windows: List[Window]
    shown: bool = False
    trial_steps: int = 0

    @property
    def steps(self):
        """All of them; the window may have more."""
        return self.warmup_steps + self.trial_steps + sum(each.steps for each in self.windows)


class Draw(NamedTuple):
    """A group's name, and the number that is drawn for it, in hexadecimal digits."""

    group: str
    number: str

    def seed(self, *of):
        """A seed for a purpose, such as ('weights', 1)."""
        text = "/".join(map(str, (self.number, *of)))
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2**BITS

    def repetition(self, number, warmup_steps, measured_steps):
        """The Orders of a repetition, by its number."""
        windows = [Window(self.seed("weights", number), measured_steps)]
        return Orders(self.seed("batches", number), warmup_steps, windows)

    def spot_run(self, warmup_steps, measured_steps, trains=True):
        """Those of the spot run: a window as long as a repetition's, and then a short one.

        A repetition's window is the first one behind its warm-up. So is the long one here: to an
        implementation that counts windows, it is the timed one, from its first step to its last. An
        inference has that one alone, as its weights stay.
        """
        short = 1 + self.seed("steps") % MOST_REPLAYED
        windows = [
            Window(self.seed("weights", "long"), measured_steps),
            Window(self.seed("weights", "short"), short),
        ]
        if not trains:
            windows = windows[:1]
        return Orders(self.seed("batches", "spot"), warmup_steps, windows, shown=True)


def kept_steps(dimensions, batch_size, accumulation):
    """Of how many steps a rank's own reader can keep the batches, which are images in float32."""
    return KEPT_BYTES // (4 * 3 * dimensions["image_size"] ** 2 * batch_size * accumulation)


def group_of(case):
    """The name of a case's group."""
    return "%s-%s" % (case.workload, dataclasses.replace(case, compiler="none").name)


def draw_of(case):
    """The path of a case's draw in its round's folder."""
    return "checks/draws/%s.json" % group_of(case)


def replay_of(case):
    """That of the replay of its group's spot runs."""
    return "checks/replays/%s.json" % group_of(case)


def spot_run_of(case):
    """That of its own spot run."""
    return "checks/%s.run.json" % case.folder


def evaluation_of(case, repetition):
    """That of the replay of what a repetition of the quality scenario was tested with last."""
    return "checks/%s.rep%d.json" % (case.folder, repetition)


def write(path, group):
    """Draw a group's number from the system's randomness, once: what is there stays."""
    if os.path.exists(path):
        return
    document = {"schema": SCHEMA, "group": group, "number": os.urandom(16).hex()}
    files.write(path, json.dumps(document, indent=1) + "\n")


def read(path):
    """The Draw in a file. Raises ValueError where it is none."""
    document = strict_json.read(path)
    number = document.get("number", "") if isinstance(document, dict) else ""
    if not (isinstance(number, str) and len(number) == 32 and document.get("schema") == SCHEMA):
        raise ValueError("%s: is no %s" % (path, SCHEMA))
    return Draw(document["group"], number)
