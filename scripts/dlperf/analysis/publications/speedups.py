"""Every ratio that a publication prints, computed again; and where it contradicts itself.

In: the CSV files of the imported rounds in config/published/. Out: speedups.tsv (printed, computed
again, difference), contradictions.tsv and contradictions.md. A printed ratio is either reproduced
to ratios.TOLERANCE, or its row is named in the list of contradictions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlperf.analysis.publications.contradictions import FOUND, KINDS, contradictions
from dlperf.analysis.publications.ratios import Ratio, ratios
from dlperf.analysis.publications.rows import case, read_all
from dlperf.analysis.schema.files import write_table
from dlperf.contract.files import write

KNOWN = "known-contradictions.csv"

COLUMNS = (
    *("file", "line", "publication", "table", "implementation", "case", "what"),
    *("published", "numerator", "denominator", "recomputed", "difference", "status", "reason"),
)


def speedups(folder: Path, out: Path) -> str:
    """Write the three files into `out`; returns what was found in a sentence."""
    rows = read_all(folder)
    found = ratios(rows)
    listed = contradictions(rows, found, folder / KNOWN)
    write_table(out / "speedups.tsv", COLUMNS, map(_ratio_row, found))
    write_table(out / "contradictions.tsv", FOUND, listed)
    write(out / "contradictions.md", markdown(listed, found))
    return summary(found, listed)


def _ratio_row(each: Ratio) -> dict[str, object]:
    row = each.row
    difference = None if each.recomputed is None else each.recomputed - each.published
    return {
        **{key: row[key] for key in ("file", "line", "publication", "table", "implementation")},
        "case": case(row),
        "what": each.what,
        "published": each.published,
        "numerator": each.numerator,
        "denominator": each.denominator,
        "recomputed": each.recomputed,
        "difference": difference,
        "status": each.status,
        "reason": each.reason,
    }


def summary(found: Sequence[Ratio], listed: Sequence[Mapping[str, str]]) -> str:
    """What became of the printed ratios; '' where none was printed."""
    counts = Counter(each.status for each in found if each.printed)
    if not counts:
        return ""
    return (
        f"{counts['reproduced']} of {counts.total()} printed ratios are reproduced, "
        f"{counts['contradicts']} contradict their own table, {counts['not computable']} have no "
        f"published base; {len(listed)} entries in the list of contradictions"
    )


def markdown(listed: Sequence[Mapping[str, str]], found: Sequence[Ratio]) -> str:
    """The list for readers."""
    text = ["# Where the publications contradict themselves", "", f"{summary(found, listed)}.", ""]
    for kind, heading in KINDS.items():
        own = [each for each in listed if each["kind"] == kind]
        if not own:
            continue
        text += [f"## {heading}", ""]
        for each in own:
            lines = f" ({each['rows']})" if 0 < len(each["rows"]) < 160 else ""
            text.append(f"- **{each['publication']}**, {each['where']}: {each['finding']}{lines}")
        text.append("")
    return "\n".join(text)
