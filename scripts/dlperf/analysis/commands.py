"""What commands of `python -m dlperf.analysis` do beside calling one function: spell its arguments,
say what was made. Each is named in steps.py and imports its own modules: a figure must not wait for
what the report needs.
"""

from collections.abc import Iterable
from pathlib import Path

from dlperf.analysis.schema.files import AnalysisError


def figure(cells: Path, name: str, svg: Path | None, png: Path | None, pdf: Path | None) -> None:
    """Draw one figure in the kinds whose files are named. Raises AnalysisError where none is."""
    from dlperf.analysis.report import drawing, figures

    asked = {"svg": svg, "png": png, "pdf": pdf}
    files = {kind: path for kind, path in asked.items() if path}
    if not files:
        options = ", ".join(f"--{kind}" for kind in drawing.KINDS)
        raise AnalysisError(f"no file to draw {name} into: give one or more of {options}")
    figures.figure(cells, name, files)


def certificates(config_path: Path, shared: Path) -> Iterable[str]:
    """A line for each certificate that the round needs."""
    from dlperf import plan
    from dlperf.analysis.round import certificates

    config = plan.load(config_path)
    return certificates.lines(certificates.read(config, plan.expand(config), shared))


def nodes(folder: Path) -> list[str]:
    """The calibrated nodes as a table for a terminal."""
    from dlperf.analysis.round.calibration import nodes

    return [nodes.show(nodes.rows(folder.glob("*.json")))]


def import_round(config_path: Path, out: Path) -> list[str]:
    """Write the records of a publication; returns how many there are."""
    from dlperf.analysis.publications.records import write_round

    return [f"{out}: {write_round(config_path, out)} records"]


def speedups(published: Path, out: Path) -> list[str]:
    """Compute published ratios again; returns how they compare."""
    from dlperf.analysis.publications.speedups import speedups

    return [speedups(published, out)]


def audit(where: Path, out: Path, sha256: str, allow_other_versions: bool) -> None:
    """Compare a round with what its raw records give, and print what differs."""
    from dlperf.analysis.audit.check import audit
    from dlperf.analysis.audit.findings import Expected

    audit(where, out, Expected(sha256, allow_other_versions))


def compare(
    baseline: Path, folder: Path, tsv: Path, html: Path, tolerance: float, metric: str
) -> int:
    """Write a round's comparison with a baseline and print it; returns the exit status."""
    from dlperf.analysis.compare.comparison import compare

    compare(baseline, folder, tsv, html, tolerance, metric)
    return verdict(tsv, html)


def verdict(tsv: Path, html: Path) -> int:
    """Print a comparison that was written; returns the exit status."""
    from dlperf.analysis.compare.comparison import show

    lines, bad = show(tsv, html)
    print("\n".join(lines))
    return 3 if bad else 0
