"""certificates/ -> the tables of docs/certificates-measured.md: what the released ones measured.

    PYTHONPATH=scripts python -m dlperf.certify.summary

released.py writes them too, when it has copied certificates.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf import frameworks, workloads
from dlperf.contract import files, strict_json, terminal
from dlperf.contract.case import PRECISIONS

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = "docs/certificates-measured.md"
BEGIN = "<!-- measured: made by `python -m dlperf.certify.summary`; do not edit -->"
END = "<!-- /measured -->"
#: Words of layouts that split a model.
SPLIT = ("tp", "pp", "zero")
TITLES = {"train": "Training", "infer": "Inference", "quality": "Time to quality"}

Key = tuple[str, str, str]  # a workload, a variant of it, and a precision
Found = tuple[float, str]  # what a tier measured, and in which framework


def tables(documents: Iterable[Mapping[str, Any]]) -> str:
    """A table a scenario and precision: a line a tier, a column a workload and variant.

    What mixed precision measures is a thousand times what fp32 does: one range would hide both.
    """
    measured: dict[Key, dict[str, list[Found]]] = {}
    for each in documents:
        own = measured.setdefault((each["workload"], each["variant"], each["precision"]), {})
        for tier in each["tiers"]:
            if tier.get("measured") is not None and tier["name"] not in ("shapes", "input"):
                own.setdefault(tier["name"], []).append((tier["measured"], each["framework"]))
    parts = []
    for (scenario, title), precision in itertools.product(TITLES.items(), PRECISIONS):
        keys = [
            key
            for key in measured
            if key[2] == precision and workloads.scenario_of(key[1]) == scenario
        ]
        keys.sort(key=_heading)
        if keys:
            named = title if precision == PRECISIONS[0] else f"{title}, {precision}"
            parts.append(f"{named}:\n\n{_table(keys, measured)}")
    return "\n\n".join(parts)


def layouts(documents: Iterable[Mapping[str, Any]]) -> str:
    """A table a workload that can be split: a line a framework, a column a layout.

    A cell has the tier that is nearest to its tolerance, and what share of it was measured.
    """
    nearest: dict[str, dict[str, dict[str, str]]] = {}
    for each in documents:
        if each["variant"] or each["precision"] != PRECISIONS[0]:
            continue
        shares = [
            (tier["measured"] / tier["tolerance"], tier["name"])
            for tier in each["tiers"]
            if tier.get("measured") is not None and tier["tolerance"]
        ]
        if shares:
            share, name = max(shares)
            own = nearest.setdefault(each["workload"], {}).setdefault(each["framework"], {})
            own[each["layout"]] = f"`{name}` {share:.2f}"
    parts = []
    for workload, rows in sorted(nearest.items()):
        columns = sorted({layout for own in rows.values() for layout in own}, key=_size)
        if any(word in layout for layout in columns for word in SPLIT):
            lines = [["", *(f"`{each}`" for each in columns)], ["---"] * (1 + len(columns))]
            lines += [
                [frameworks.of(name).title, *(own.get(each, "") for each in columns)]
                for name, own in sorted(rows.items())
            ]
            title = f"{workloads.of(workload).title} by layout, shares of the tolerance:"
            parts.append(title + "\n\n" + "\n".join(f"| {' | '.join(one)} |" for one in lines))
    return "\n\n".join(parts)


def _size(layout: str) -> tuple[int, str]:
    return len(layout), layout


def _table(keys: Sequence[Key], measured: Mapping[Key, Mapping[str, Sequence[Found]]]) -> str:
    tiers = dict.fromkeys(tier for key in keys for tier in measured[key])
    lines = [["tier", *map(_heading, keys)], ["---"] * (1 + len(keys))]
    lines += [
        [f"`{tier}`", *(_range(measured[key].get(tier, ())) for key in keys)] for tier in tiers
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _heading(key: Key) -> str:
    workload, variant, _ = key
    choices = "-".join(each for each in variant.split("-") if each not in TITLES)
    return workloads.of(workload).title + (f", `{choices}`" if choices else "")


def _range(found: Sequence[Found]) -> str:
    """'1.4e-09 to 1.6e-07 (JAX)': from the least that is not 0, and whose the largest is."""
    above = [each for each in found if each[0]]
    if not above:
        return "0" if found else ""
    (least, _), (largest, framework) = min(above), max(above)
    alone = len({name for _, name in found}) == 1
    alike = _number(least) == _number(largest)
    whose = f" ({frameworks.of(framework).title})" if alone or not alike else ""
    return ("" if alike else f"{_number(least)} to ") + _number(largest) + whose


def _number(value: float) -> str:
    return f"{value:.2g}" if value >= 0.01 else f"{value:.1e}"


def written(text: str, root: Path) -> str:
    """The document's text with tables of the certificates that are there."""
    paths = sorted((root / "certificates").rglob("*.json"))
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    documents = list(map(strict_json.read, paths))
    made = "\n\n".join(filter(None, (tables(documents), layouts(documents))))
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def write(root: Path = ROOT) -> None:
    path = root / DOCUMENT
    files.write_if_changed(path, written(path.read_text(encoding="utf-8"), root))


if __name__ == "__main__":
    terminal.as_utf8()
    write()
