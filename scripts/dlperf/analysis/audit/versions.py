"""Which versions a report was computed with, and what an audit with others can vouch for."""

from dataclasses import dataclass
from pathlib import Path

from dlperf.analysis.audit.differences import computed_with
from dlperf.analysis.audit.findings import ALLOW, Audit, Expected, Finding
from dlperf.analysis.round import checksums

#: What figures are drawn with.
DRAWING = ("fonttools ", "matplotlib ", "pillow ")
OTHER = "other versions"


@dataclass(frozen=True)
class Same:
    """What of the report's versions is that of the audit: its code; what figures are drawn with.

    `said`: what the report says, where that is not what the audit has. `rounding`: a table that
    differs by rounding is taken as it is, for what is derived from it.
    """

    code: bool = True
    drawing: bool = True
    said: tuple[str, ...] = ()
    rounding: bool = False


SAME = Same()


def expectation(folder: Path, done: Audit, expected: Expected) -> Same:
    """By what the round's report says that it was computed with: with other versions an audit
    cannot vouch for pictures and pages, and says so."""
    page = folder / "report.html"
    said = computed_with(page.read_bytes()) if page.is_file() else []
    here = list(checksums.computed_with())
    if said == here or not page.is_file():
        return Same(rounding=expected.other_versions)
    apart = sorted({*said} ^ {*here})
    same_code = not any(each.startswith("code ") for each in apart)
    drawing = not any(each.startswith(DRAWING) for each in apart)
    theirs = ", ".join(each for each in said if each in apart) or "nothing"
    ours = ", ".join(each for each in here if each in apart) or "the same"
    told = (
        f"the report was computed with other versions than this audit ({theirs}; here {ours}), so "
        "it cannot vouch for pictures and pages. "
    )
    if not same_code:
        told += "Of other code, check out the commit that the records name, or the release. "
    told += "A .venv from the round's envs/workflow.lock.txt has its libraries"
    if not drawing:
        told += (
            ". Figures were not drawn again: cells.tsv, which they draw, was compared, and that "
            "the report shows these figures"
        )
    if expected.other_versions:
        done.notes.append(told)
    else:
        told += f"; {ALLOW} lets this pass"
        done.findings.append(Finding(OTHER, page.name, "computed with", "", theirs, ours))
        done.notes.append(told)
    return Same(same_code, drawing, tuple(said), expected.other_versions)
