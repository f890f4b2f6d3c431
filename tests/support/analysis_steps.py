"""The analysis of a round on disk, a step a command, as the workflow's rules call it.

Each function returns the arguments of `python -m dlperf.analysis` for the round in `results`;
`show` and `everything` run them.
"""

from pathlib import Path

from dlperf import plan
from dlperf.analysis import steps
from dlperf.analysis.__main__ import main
from dlperf.analysis.round import names, verdicts


def merging(results: Path) -> list[str]:
    return steps.MERGE.arguments(results, _cases(results))


def limiting(results: Path) -> list[str]:
    return steps.LIMITS.arguments(results, _cases(results))


def summarising(results: Path) -> list[str]:
    return steps.CELLS.arguments(results, _cases(results))


def bounding(results: Path) -> list[str]:
    return steps.ROOFLINE.arguments(results, _cases(results))


def holding_against(results: Path) -> list[str]:
    return steps.BESIDE.arguments(results, _cases(results))


def listing(results: Path) -> list[str]:
    return steps.MARKDOWN.arguments(results, _cases(results))


def reporting(results: Path) -> list[str]:
    return steps.REPORT.arguments(results, _cases(results))


def everything(results: Path) -> None:
    """From records to the report, as the workflow does."""
    for step in steps.TO_CELLS:
        assert main(step.arguments(results, _cases(results))) == 0
    show(results)


def show(results: Path) -> None:
    """From cells to the report."""
    cases = _cases(results)
    for name in names.table_ids(cases):
        assert main(shown("table", results, name)) == 0
    for name in names.figure_ids(cases):
        assert main(shown("figure", results, name)) == 0
    assert main(listing(results)) == 0
    hold_against(results)
    assert main(reporting(results)) == 0


def hold_against(results: Path) -> None:
    """Verdicts beside what the config names, and their figures."""
    entries = plan.load(results / "config.yaml").beside
    if entries:
        assert main(holding_against(results)) == 0
    for name in verdicts.figures(entries):
        assert main(drawing_beside(results, name)) == 0


def drawing_beside(results: Path, name: str) -> list[str]:
    """One figure of verdicts, in the kinds that are always made."""
    left_out = dict.fromkeys(names.DRAWN_ON_REQUEST)
    other = name.removeprefix(f"{names.BESIDE}-")
    return steps.BESIDE_FIGURE.arguments(results, (), {"other": other, **left_out})


def shown(what: str, results: Path, name: str) -> list[str]:
    """One table or figure, in the kinds that are always made."""
    left_out = dict.fromkeys(names.DRAWN_ON_REQUEST)
    return steps.STEPS[what].arguments(results, (), {what: name, **left_out})


def _cases(results: Path) -> list[plan.Case]:
    """Those of the round; none of a config that is wrong, which the step itself must say."""
    try:
        return plan.expand(plan.load(results / "config.yaml"))
    except plan.ConfigError:
        return []
