"""What an audit tells on a terminal: what was looked at, notes, and the first findings."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from dlperf.analysis.audit.findings import Audit, Finding
from dlperf.analysis.round import checksums, labels

#: How many findings of a file, and of all files, are printed; audit.tsv has all.
SHOWN_OF_FILE = 6
SHOWN = 60


def summary(done: Audit, out: Path) -> Iterator[str]:
    """For a terminal: what was looked at, notes, and the first findings."""
    yield (
        f"Round {done.round}: {labels.plural(done.listed, 'file')} of raw data compared with "
        f"{checksums.NAME}, {labels.plural(len(done.compared), 'file')} regenerated and compared"
    )
    if done.sums_sha256:
        yield f"sha256 of {checksums.NAME}: {done.sums_sha256}"
    if done.archive_sha256:
        yield f"sha256 of the archive: {done.archive_sha256}"
    yield from (f"Note: {note}" for note in done.notes[:SHOWN_OF_FILE])
    if len(done.notes) > SHOWN_OF_FILE:
        yield f"... and {len(done.notes) - SHOWN_OF_FILE} more notes"
    if done.rounding:
        count = len(done.rounding)
        number = "1 number differs" if count == 1 else f"{count:,} numbers differ"
        yield f"{number} by rounding only: {out} has all"
    if not done.findings:
        yield "Nothing differs." if not done.rounding else "Nothing else differs."
        return
    shown: Counter[str] = Counter()
    for finding in done.findings:
        shown[finding.file] += 1
        if shown[finding.file] <= SHOWN_OF_FILE and shown.total() <= SHOWN:
            yield _line(finding)
    more = {file: n - SHOWN_OF_FILE for file, n in shown.items() if n > SHOWN_OF_FILE}
    yield from (f"  {file}: {count} more" for file, count in more.items())
    if shown.total() > SHOWN:
        yield f"  and so on: {out} has all"


def _line(finding: Finding) -> str:
    place = ", ".join(filter(None, (finding.file, finding.row, finding.column)))
    values = ""
    if finding.stored and finding.recomputed:
        values = f": {_short(finding.stored)} is stored, {_short(finding.recomputed)} recomputed"
    elif finding.stored or finding.recomputed:
        values = f": {_short(finding.stored or finding.recomputed)}"
    return f"  {finding.what}: {place}{values}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_text(finding: Finding) -> Finding:
    """What files and names say is text: nothing in it moves a terminal's cursor."""

    def shown(text: str) -> str:
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

    return Finding(*map(shown, asdict(finding).values()))
