"""What differs between two rounds beside their speeds: machines, versions, code, settings.

In: two rounds, and the pairs of cells that both have. Out: differences, each said once: of all
common cells, of all of a framework, or of one cell alone. What a cell's own repetitions say counts,
so a driver that differs on one node only is found where it was.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dlperf.analysis.compare.rounds import Round
from dlperf.analysis.round import labels, names
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.rows import value_of
from dlperf.analysis.statistics.medians import median
from dlperf.contract import strict_json

#: Columns of measurements.tsv.gz that name what a repetition ran on.
FACTS = (
    *("hostname", "gpu", "gpu_driver", "gpu_power_limit_watts", "cpu", "cores", "cores_allowed"),
    *("memory_bytes", "os", "kernel", "governor"),
    *("git_commit", "git_dirty", "code_sha256", "lock_sha256", "freeze_sha256", "python"),
    "data_manifest_sha256",
)
#: How many values of a round are spelled out, such as the machines of a cluster.
SHOWN = 4

#: (workload, framework, case): the same in every round
Key = tuple[str, str, str]


def key(row: Mapping[str, Any]) -> Key:
    return row["workload"], row["framework"], row["case"]


class Difference(NamedTuple):
    """`what` is `before` in the baseline and `now` in the round."""

    what: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} → {self.now}"


@dataclass
class Differences:
    """`everywhere`: of all common cells; `of_framework`: of all of one (by title); `of_cell`: the
    rest, and `of_cell_in_full` everything that a cell's own repetitions say.

    `same` names facts that differ nowhere; a reading is (words, baseline's range, round's range);
    `packages` are of frameworks, by title, and `unknown` says why those of others are not there.
    """

    everywhere: list[Difference]
    of_framework: dict[str, list[Difference]]
    of_cell: dict[Key, list[Difference]]
    of_cell_in_full: dict[Key, list[Difference]]
    same: list[str]
    readings: list[tuple[str, str, str]]
    config: list[Difference]
    packages: dict[str, list[Difference]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def between(before: Round, now: Round, common: Sequence[Key]) -> Differences:
    """What differs between two rounds over the cells `common`, which both have measured."""
    first, second = facts_of(before, common), facts_of(now, common)
    cells = {each: differences(first[each], second[each]) for each in common}
    everywhere = _shared(list(cells.values()))
    of_framework: dict[str, list[Difference]] = {}
    left = {each: [one for one in cells[each] if one not in everywhere] for each in common}
    frameworks = list(dict.fromkeys(framework for _, framework, _ in common))
    for framework in frameworks:
        own = [each for each in common if each[1] == framework]
        if shared := _shared([left[each] for each in own]):
            of_framework[names.framework_title(framework)] = shared
            left |= {each: [one for one in left[each] if one not in shared] for each in own}
    named = {difference.what for own in cells.values() for difference in own}
    found = Differences(
        everywhere,
        of_framework,
        left,
        cells,
        [
            words
            for words in (columns.column(name).title for name in FACTS)
            if words not in named and any(words in facts for facts in first.values())
        ],
        _readings(before, now, common),
        _config(before.config, now.config),
    )
    for framework in frameworks:
        _packages(before, now, framework, found)
    return found


def facts_of(round: Round, common: Iterable[Key]) -> dict[Key, dict[str, str]]:
    """What each cell's ok repetitions say of themselves, in words."""
    found: dict[Key, dict[str, dict[str, None]]] = {each: {} for each in common}
    for row in round.repetitions:
        if row["status"] == "ok" and key(row) in found:
            for name in FACTS:
                value, column = row.get(name), columns.column(name)
                if value not in (None, ""):
                    found[key(row)].setdefault(column.title, {})[_short(column.form(value))] = None
    for said in round.parity:
        if key(said) in found:
            words = said["key"].replace("_", " ")
            found[key(said)].setdefault(words, {})[_short(said["value"])] = None
    return {
        each: {what: _listed(sorted(values)) for what, values in facts.items()}
        for each, facts in found.items()
    }


def _short(value: str) -> str:
    """The first 12 digits of a sha or a commit, and anything else as it is."""
    is_hash = len(value) >= 40 and not set(value) - set("0123456789abcdef")
    return value[:12] if is_hash else value


def _listed(values: Sequence[str]) -> str:
    more = len(values) - SHOWN
    return labels.listed(values) if more <= 0 else f"{', '.join(values[:SHOWN])} and {more} more"


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[Difference]:
    """What both say and say differently."""
    return [
        Difference(what, first[what], second[what])
        for what in first
        if what in second and first[what] != second[what]
    ]


def _shared(found: Sequence[Sequence[Difference]]) -> list[Difference]:
    return [each for each in found[0] if all(each in own for own in found)] if found else []


def _readings(before: Round, now: Round, common: Sequence[Key]) -> list[tuple[str, str, str]]:
    wanted = set(common)
    found = []
    for name, (factor, unit) in columns.READINGS.items():
        shown = []
        for each in (before, now):
            values = [
                float(value_of(row, name)) * factor
                for row in each.repetitions
                if row["status"] == "ok" and key(row) in wanted and row.get(name) is not None
            ]
            shown.append(_range(values, unit))
        if any(shown):
            words = columns.column(name).title
            found.append((words, shown[0] or "not read", shown[1] or "not read"))
    return found


def _range(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    low, middle, high = (f"{each:.4g}" for each in (min(values), median(values), max(values)))
    said = low if low == high else f"{low} – {high}, median {middle}"
    return said + unit


def _config(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Keys of the two configs that differ, dotted."""
    first, second = dict(_flat(before)), dict(_flat(now))
    return [
        Difference(name, first.get(name, "not there"), second.get(name, "not there"))
        for name in dict.fromkeys([*first, *second])
        if name != "round" and first.get(name) != second.get(name)
    ]


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + str(name), json.dumps(value)


def _packages(before: Round, now: Round, framework: str, found: Differences) -> None:
    """Packages of a framework's environment that differ, where both environments are still known.

    env.json is shared by rounds and tells of the environment that there is now; a record says by a
    sha256 which packages it was measured with.
    """
    title = names.framework_title(framework)
    asked = [_recorded(each, framework) for each in (before, now)]
    if asked[0] == asked[1]:
        return
    lists = [
        _freeze(each, framework, wanted) for each, wanted in zip((before, now), asked, strict=True)
    ]
    for each, packages in zip((before, now), lists, strict=True):
        if packages is None:
            found.unknown[title] = (
                f"the environment that {each.name} was measured with is not there any more"
            )
            return
    first, second = ({_package(line): line for line in packages or ()} for packages in lists)
    found.packages[title] = [
        Difference(name, _version(first.get(name)), _version(second.get(name)))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]


def _recorded(round: Round, framework: str) -> tuple[frozenset[str], frozenset[str]]:
    own = [
        row for row in round.repetitions if row["framework"] == framework and row["status"] == "ok"
    ]
    return (
        frozenset(row["lock_sha256"] for row in own),
        frozenset(row["freeze_sha256"] for row in own),
    )


def _freeze(
    round: Round, framework: str, wanted: tuple[frozenset[str], frozenset[str]]
) -> list[str] | None:
    """The packages of env.json, if that is the environment of the round's records."""
    path = round.shared / "environments" / f"{framework}.{round.config['device']}" / "env.json"
    try:
        environment = strict_json.read(path)
    except (OSError, ValueError):
        return None
    packages: list[str] = environment.get("freeze", [])
    sha256 = hashlib.sha256("\n".join(packages).encode()).hexdigest()  # as measure/record.py
    _, freezes = wanted
    return packages if freezes == {sha256} else None


def _package(line: str) -> str:
    return line.partition("==")[0].partition(" @ ")[0].lower()


def _version(line: str | None) -> str:
    if line is None:
        return "not there"
    return line.partition("==")[2] or line.partition(" @ ")[2] or line
