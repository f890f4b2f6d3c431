"""How a source's lines look: the words in which every source module describes itself.

A form's pattern says by the names of its groups what stands where:

    step                                label of the step, epoch: the epoch in which it counts anew
    steps | since                       how many steps the line covers | the label that it follows
    rank                                who printed it
    rate | step_rate | kilotoken_rate   samples, steps, thousands of tokens per second, of the steps
                                        since the line before
    running_rate                        samples a second, the mean since training (or an epoch)
                                        began
    running_step_seconds                mean time of a step, since Form.running_since
    seconds | milliseconds              time of all steps that the line covers
    step_seconds | step_milliseconds    mean time of one of them
    unix                                the time of day, where it does not stand before the match
    loss
    samples | global_batch              consumed since training began | of this step
    batch                               of a step, those of who printed it
    epoch_samples                       samples of a step, where the log counts epochs, not steps

The time stamp is looked for before the match (stamps.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from dlperf.analysis.logs.lines import Line

#: A number as C, Python and C++ print it, those included that are none; taken whole or not at all:
#: of 1,234.5 and 13,2 neither the 1 nor the 13.
NUMBER = r"(?>[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?)))(?!,\d)"

#: What a log may say of a case, and the case's value in the same words.
Setting = Literal[
    "batch_size",
    "global_batch_size",
    "accumulation",
    "precision",
    "devices",
    "nodes",
    "devices_per_node",
]


def regex(pattern: str) -> re.Pattern[str]:
    """A pattern in which <N> stands for a number."""
    return re.compile(pattern.replace("<N>", NUMBER))


@dataclass(frozen=True)
class Form:
    """One kind of line. `printed_by` says what a printed rate is of: all ranks, or one."""

    framework: str  # "" where the lines do not tell
    implementation: str
    pattern: re.Pattern[str]
    first_step: int = 1  # the label that a training's first step has
    printed_by: Literal["all", "rank"] = "all"
    #: What the settings mean in the scripts that print this form, beside those of the source.
    stated: tuple["Stated", ...] = ()
    running_since: int = 0  # steps of the epoch that a running mean leaves out
    note: str = ""  # what a reader of its figures must know
    uncounted: str = ""  # why times or rates that its lines print do not count


@dataclass(frozen=True)
class Stated:
    """A setting that lines state: its value is the group, or `value` where the pattern matches.

    `listed`: the group is a list, and the value is how many it lists.
    """

    setting: Setting
    pattern: re.Pattern[str]
    value: str = ""
    listed: bool = False

    def of(self, text: str) -> str | None:
        """The value that a line states, or None."""
        match = self.pattern.search(text)
        if match is None:
            return None
        return str(len(match[1].split(","))) if self.listed else self.value or match[1]


@dataclass(frozen=True)
class Skipped:
    """Lines that say how many steps changed no weights, because the loss scale overflowed.

    The pattern's group `total` counts since training began, `since` since the line before.
    `counted` says whether such a step has a number of its own in the log's count of steps.
    """

    pattern: re.Pattern[str]
    counted: bool


class WrongLine(Exception):
    """A line that has a value which cannot be: what is wrong with it, and what may stand there."""

    def __init__(self, line: Line, what: str) -> None:
        self.line, self.what = line, what
        super().__init__(f"line {line.number}: {what}")


def unchanged(lines: Iterable[Line]) -> Iterator[Line]:
    yield from lines


def nothing_lacks(lines: Iterable[Line]) -> str:
    return ""


@dataclass(frozen=True)
class Source:
    """A source of logs; `upstream` names the files whose format strings its forms follow."""

    title: str
    upstream: str
    forms: tuple[Form, ...]
    stated: tuple[Stated, ...] = ()
    #: Lines that say that training stood still between two steps (evaluation, checkpoints).
    pauses: re.Pattern[str] | None = None
    skipped: Skipped | None = None
    #: Printed durations count even where there are time stamps (they leave out evaluations).
    durations_first: bool = False
    #: Makes one line of what upstream spreads over several.
    join: Callable[[Iterable[Line]], Iterator[Line]] = unchanged
    #: What lines of this source lack that no form was found in them; '' if none is of this source.
    lacks: Callable[[Iterable[Line]], str] = nothing_lacks


def stated_precision(name: str, precision: str = "amp") -> tuple[Stated, ...]:
    """`name` is true or false: mixed precision (of that kind) or not."""
    return (
        Stated(
            "precision",
            re.compile(rf"(?<![\w.]){name}\b['\"]? ?[:=. ]+(?:[Tt]rue|1\b)"),
            precision,
        ),
        Stated(
            "precision", re.compile(rf"(?<![\w.]){name}\b['\"]? ?[:=. ]+(?:[Ff]alse|0\b)"), "fp32"
        ),
    )
