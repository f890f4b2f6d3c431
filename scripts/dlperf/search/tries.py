"""A search with real processes, resumable: a fresh one a try, all tries in one document.

In: a case document whose size is searched. Out: the document of the search (dlperf.search/1). Each
try is written to a file beside it as soon as it ends; a search that was killed takes them from
there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dlperf.contract import files, searched, strict_json
from dlperf.search.find import SHORT, Attempt, Found, Grid, Try, find

Document = dict[str, Any]
Measure = Callable[[Document], Document]


@dataclass(frozen=True)
class Search:
    """How a search is made. steps: of a short try, the first of them warms up; repetitions: full
    ones that the size must pass."""

    least: int
    most: int
    granule: int
    fine: int
    steps: int
    repetitions: int

    @property
    def grid(self) -> Grid:
        return Grid(self.least, self.most, self.granule, self.fine)


class Tries:
    """Makes tries and keeps them in a file; those that the file has are not made again.

    asked: what the tries depend on. A file of anything else is not used.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any], make: Attempt) -> None:
        self._path, self._asked, self._make = path, asked, make
        self._kept = self._read()
        self.all: list[Try] = []

    def __call__(self, value: int, kind: str) -> Try:
        if self._kept:
            done = self._kept.pop(0)
            if (done.value, done.kind) != (value, kind):  # of another method
                self._kept = []
                return self(value, kind)
            self.all.append(done)
            return done
        self.all.append(self._make(value, kind))
        content = {"asked": self._asked, "tries": list(map(asdict, self.all))}
        files.write(self._path, json.dumps(content, indent=1) + "\n")
        return self.all[-1]

    def _read(self) -> list[Try]:
        try:
            content = strict_json.read(self._path)
            return parse(content["tries"]) if content["asked"] == self._asked else []
        except (OSError, ValueError, KeyError, TypeError):
            return []


def parse(tries: Sequence[Mapping[str, Any]]) -> list[Try]:
    """Tries as a document has them. Raises TypeError for what is none."""
    return [Try(**each) for each in tries]


def search(
    case: Document, how: Search, kept: Path, measure: Measure, made_with: Mapping[str, Any]
) -> Document:
    """The document of a search for the case's largest size.

    case: its size is the least one. kept: the file of tries. measure: a case document -> its
    record. made_with: what else a try depends on, such as the lock and the code.
    """

    def make(value: int, kind: str) -> Try:
        record = measure(document_of(case, how, value, kind))
        return Try(
            value,
            kind,
            record["status"],
            record["reason"],
            record["provenance"]["seconds_total"],
            peak_bytes(record),
            case["settings"].get("memory_limit_bytes", 0) or card_bytes(record),
            record["provenance"]["start_utc"],
        )

    tries = Tries(kept, {"case": case, "search": asdict(how), **made_with}, make)
    found = find(tries, how.grid, how.repetitions)
    return {**document(case, how, tries.all, found), "made_with": dict(made_with)}


def document_of(case: Document, how: Search, value: int, kind: str) -> Document:
    """The case document of a try."""
    found = searched.sized(case, value)
    if kind == SHORT:
        short = {"warmup_steps": 1, "measured_steps": how.steps - 1, "minimum_seconds": 0}
        found["settings"] = {**found["settings"], **short}
    return found


def peak_bytes(record: Mapping[str, Any]) -> int:
    """The most memory that a rank took, as its limit counts it; 0 where that is not known."""
    names = ("committed_peak_bytes", "device_total_peak_bytes", "device_peak_bytes")
    for name in names:
        values = [each[name] for each in record["memory"] if each.get(name)]
        if values:
            return max(values)
    return 0


def card_bytes(record: Mapping[str, Any]) -> int:
    """The memory of the smallest GPU of a record; 0 without one."""
    sizes = [gpu.get("memory_bytes") or 0 for gpu in record["host"].get("gpus", ())]
    return min(sizes, default=0)


def document(case: Document, how: Search, tries: Sequence[Try], found: Found) -> Document:
    """dlperf.search/1: what was found, and every try."""
    value = found.value or how.least
    last = found.ended_by
    return {
        "schema": searched.SCHEMA,
        "status": last.status if last and not found.value else "ok",
        "reason": _why(case, last) if last and not found.value else "",
        "value": value,
        "above": found.above,
        "identity": searched.sized(case, value)["identity"],
        "settings": case["settings"],
        "search": asdict(how),
        "tries": list(map(asdict, tries)),
    }


def _why(case: Document, last: Try) -> str:
    """Why nothing fits, in one line."""
    if last.status == "unsupported" or last.reason.startswith("no environment:"):
        return last.reason
    size = f"{case['identity']['searched']} {last.value}"
    limit = case["settings"].get("memory_limit_bytes", 0)
    within = f" within memory_limit ({limit / 1e9:g} GB)" if limit else ""
    how = (
        f"not even {size} fits{within}" if last.status == "oom" else f"not even {size} ran{within}"
    )
    return f"{how}: {last.reason}"


def problems(found: Mapping[str, Any]) -> list[str]:
    """What is wrong with a search's document: what it says is found must follow from its tries."""
    try:
        tries, how = parse(found["tries"]), Search(**found["search"])
        left = list(tries)

        def again(value: int, kind: str) -> Try:
            done = left.pop(0)
            if (done.value, done.kind) != (value, kind):
                raise LookupError
            return done

        made = document(dict(found), how, tries, find(again, how.grid, how.repetitions))
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return ["its tries are not those of this method"]
    if left:
        return [f"its last {len(left)} tries are not those of this method"]
    return [
        f"{key} is {found.get(key)!r}, but its tries say {made[key]!r}"
        for key in ("status", "reason", "value", "above", "identity")
        if found.get(key) != made[key]
    ]
