"""Flags of cells: what a reader must know before believing a number.

In: a cell, and the flags that its repetitions raise (disturbances.py). Out: all of them, their
meaning in words, and which cells they exclude from ranks. docs/statistics.md has the rule of each.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dlperf.analysis.schema.files import Row

#: Above this share of the window spent waiting for batches, it is reading that was measured.
LOADER_SHARE = 0.02
NOT_EQUIVALENT = "not-equivalent"
#: Its spot run did not do what the reference does: what was timed is other work.
DIFFERENT = "not-as-certified"
#: It stands beside cells whose timed process is proved.
UNCHECKED = "certificate-only"
SUSPECT = "suspect:"
#: Other code ran beside it than a package, the project or another run of the case has.
CODE = "suspect:code"
#: Suspects that keep their number, but are excluded from ranks, winners and comparisons, and are no
#: baseline: the timed work itself is in doubt, so the number may be of less work, or is impossible.
#: All other flags exclude nothing. What disturbed a host can only have slowed the cell down, and
#: excluding it would move its rivals up for an accident.
EXCLUDING = (
    *("suspect:losses", "suspect:weights", "suspect:outputs", "suspect:mfu-above-100%"),
    *("suspect:pace", CODE),
)
#: A ratio that a cell lacks, because its baseline is a cell that EXCLUDING excludes.
NO_SPEED_UP = "suspect-baseline:speed-up"
NO_PRECISION_RATIO = "suspect-baseline:precision"
NO_GLOBAL_BATCH_RATIO = "suspect-baseline:global-batch"
#: A speed-up over a device that ran its steps in another way.
OTHER_BASELINE = "unlike-baseline:cuda-graphs"
_BASELINE = "its baseline is a suspect cell that is excluded from ranks"
FLAGS = {
    f"{NOT_EQUIVALENT}:missing": "not equivalent: no certificate of equal work was made",
    "certificate-stale": "its certificate of equal work was made with other code or another lock",
    "check-stale": "its spot check was made with other code or another lock: it has a certificate "
    "alone",
    UNCHECKED: "certificate only: no spot check proves what was timed, as it does for others here, "
    "so it has no rank beside them",
    "partial": "fewer repetitions are ok than were asked for",
    "mixed-code": "repetitions were measured at different commits",
    "mixed-environment": "repetitions were measured with different locks",
    "mixed-data": "repetitions were measured on different data",
    "saturated": "more requests arrive than are answered: they pile up, and their latency would "
    "only say how long that went on",
    "suspect:scaling-above-100%": "scaling efficiency is above 100 % by more than the noise",
    "suspect:overlapping-repetitions": "another repetition ran on the same host at that time",
    "suspect:busy-host-before": "the host was not idle before a repetition started",
    "suspect:foreign-load": "other processes used the host's CPU in the timed window",
    "suspect:loader": "steps waited for data for more than 2 % of the time",
    "suspect:mfu-above-100%": "MFU is above 100 %: a wrong peak, a calibration that was disturbed, "
    "or less work than is counted",
    "suspect:throttled": "a processor was slowed down by heat or a power brake: see `throttled`",
    "suspect:placement": "a rank's cores were not those on its card's side of the machine: see "
    "`placement`",
    "suspect:drift": "the host's speed drifted, and this was measured at other times than the rest",
    CODE: "code ran that nobody vouches for: a file of no package, a package's file that was "
    "altered, a page that reaches for more than it is given; or its runs did not import the same",
    "suspect:losses": "its losses are not those of the other frameworks, or do not change: it may "
    "compute something else while it is timed than its certificate proves",
    "suspect:outputs": "its outputs are not those of the other frameworks: it may be timed with "
    "another model than its certificate proves",
    "suspect:weights": "its ranks ended with different weights, or training changed them otherwise "
    "than in the other frameworks: work may be left out while it is timed",
    "suspect:pace": "its timed window went faster than its own trial, whose steps a spot check "
    "proves: work may be left out behind as many",
    OTHER_BASELINE: "its speed-up and efficiency are over a baseline whose steps are replayed as "
    "CUDA graphs, and its own are launched one kernel after the other: what that takes counts as "
    "if it were the exchange's",
    NO_SPEED_UP: f"no speed-up or ratio: {_BASELINE}",
    NO_PRECISION_RATIO: f"no ratio to a full precision: {_BASELINE}",
    NO_GLOBAL_BATCH_RATIO: f"no ratio with an equal global batch: {_BASELINE}",
}


def found(cell: Row, of_repetitions: Iterable[str]) -> list[str]:
    """The flags of a cell, with those of its repetitions; its certificate's: certificates.py."""
    own = {
        "partial": cell["n_ok"] < cell["n_asked"],
        "suspect:scaling-above-100%": (cell.get("efficiency_low") or 0) > 1,
        "suspect:loader": (cell["loader_share"] or 0) > LOADER_SHARE,
        "suspect:mfu-above-100%": max(cell.get(f"mfu_{of}") or 0 for of in ("stated", "measured"))
        > 1,
    }
    return [name for name in FLAGS if own.get(name) or name in of_repetitions]


def flag(text: str) -> str:
    """A flag in words: 'suspect cell: reason', and whether that excludes it from ranks.

    'not-equivalent:<tier>[:<tensor>]' names the tier and the tensor.
    """
    if text in EXCLUDING:
        return f"suspect cell, excluded from ranks: {FLAGS[text]}"
    if text.startswith(SUSPECT):
        return f"suspect cell: {FLAGS[text]}"
    if text.startswith(DIFFERENT):
        tier = text.partition(":")[2]
        if tier == "missing":
            return "not proved: no spot run of it ended well"
        return f"not what was certified: its spot check fails in the tier {tier}"
    if text in FLAGS or not text.startswith(NOT_EQUIVALENT):
        return FLAGS[text]
    _, tier, *tensor = text.split(":", 2)
    where = f", tensor {tensor[0]}" if tensor else ""
    return f"not equivalent: its certificate fails in the tier {tier}{where}"


def not_equivalent(row: Mapping[str, Any]) -> bool:
    """Whether a cell's number stands without a proof of equal work, or beside one against it."""
    unproved = {row["certificate"], row.get("check")} & {"failed", "missing"}
    return row["status"] == "ok" and bool(unproved)


def comparable(row: Mapping[str, Any]) -> bool:
    """Whether a cell's equal work is certified, in the cell's environment, and no spot check says
    otherwise of what was timed."""
    if row["status"] != "ok":  # what is unsupported has no certificate at all
        return False
    return row["certificate"] == "passed" and row.get("check") not in ("failed", "missing")


def suspect(row: Mapping[str, Any]) -> bool:
    """Whether anything is suspect about a cell, whatever follows from that."""
    return SUSPECT in (row.get("flags") or "")


def excluding(row: Mapping[str, Any]) -> list[str]:
    """The flags of a cell that exclude it from ranks."""
    return [text for text in (row.get("flags") or "").split() if text in EXCLUDING]


def rankable(row: Mapping[str, Any]) -> bool:
    """Whether a cell may be ranked, win, or be compared: certified, and no flag excludes it."""
    return comparable(row) and not excluding(row)


def mark(row: Mapping[str, Any]) -> str:
    """How a number is marked that is shown, but excluded from ranks; '' for any other."""
    if row["status"] != "ok":
        return ""
    return "not equivalent" if not_equivalent(row) else "suspect" if excluding(row) else ""
