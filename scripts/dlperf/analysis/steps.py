"""The steps of the analysis: what each reads and writes, and the function that does it.

The rules, `python -m dlperf.analysis`, the audit and the tests take inputs, outputs and commands
from here. Cheap to import, as every Snakemake process does: a step's function is named, and
imported when the step runs.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dlperf.analysis.round import names

if TYPE_CHECKING:
    from dlperf.plan import Case

#: What an option is to a rule: a file that the step reads or writes, a parameter, a wildcard.
INPUT, OUTPUT, PARAM, WILDCARD = "input", "output", "params", "wildcards"


def _always(_: Sequence[Case]) -> bool:
    return True


class Option(NamedTuple):
    """An option of a step's command. `path` is that of its file from the round's folder."""

    name: str
    role: str
    path: str = ""
    kind: type = Path
    default: Any = None
    required: bool = True
    #: Whether the command takes several values.
    several: bool = False
    #: Whether a round of these cases has the file. An imported round has no cases.
    belongs: Callable[[Sequence[Case]], bool] = _always
    #: Whether the command gets it; else the step finds it in the folder of another option.
    given: bool = True

    @property
    def key(self) -> str:
        """The option's name as an attribute."""
        return self.name.replace("-", "_")

    @property
    def may_lack(self) -> bool:
        return not self.required or self.belongs is not _always


class Step(NamedTuple):
    """A step; the `given` options are the arguments of its function, in their order."""

    name: str
    function: str
    options: tuple[Option, ...]

    def inputs(self, folder: str | Path, cases: Sequence[Case]) -> dict[str, str]:
        """The files that the step reads in the round's folder, by option."""
        return self._paths(INPUT, folder, cases)

    def outputs(self, folder: str | Path, cases: Sequence[Case]) -> dict[str, str]:
        """The files that the step writes in the round's folder, by option."""
        return self._paths(OUTPUT, folder, cases)

    def params(self, folder: str | Path, cases: Sequence[Case]) -> dict[str, str]:
        """The folders that the step is given, by option."""
        return self._paths(PARAM, folder, cases)

    def _paths(self, role: str, folder: str | Path, cases: Sequence[Case]) -> dict[str, str]:
        own = (each for each in self.of_round(cases) if each.role == role and each.path)
        return {option.key: in_round(folder, option.path) for option in own}

    def of_round(self, cases: Sequence[Case]) -> list[Option]:
        """The options that the step has for a round of these cases."""
        return [option for option in self.options if option.belongs(cases)]

    def command(self, cases: Sequence[Case], without: Iterable[str] = ()) -> str:
        """The step's command for the shell directive of a rule with the step's inputs, outputs and
        params; `without` options that the rule spells itself."""
        # a param may be empty, of which Snakemake's quoting leaves nothing
        asked = [
            f"--{option.name}{'=' if option.role == PARAM else ' '}{{{option.role}.{option.key}:q}}"
            for option in self.of_round(cases)
            if option.given and option.name not in without
        ]
        return " ".join([" -m dlperf.analysis", self.name, *asked])

    def arguments(
        self, folder: str | Path, cases: Sequence[Case], values: Mapping[str, str | None] = {}
    ) -> list[str]:
        """The arguments of `python -m dlperf.analysis` for the round in `folder`.

        `values` are those of options that are no files of the round, and of wildcards in their
        paths; None leaves an option out.
        """
        found = [self.name]
        for option in self.of_round(cases):
            if not option.given or option.name in values and values[option.name] is None:
                continue
            text = values[option.name] if option.name in values else option.path.format(**values)
            if option.name not in values:
                text = in_round(folder, str(text))
            found += [f"--{option.name}", str(text)]
        return found

    def run(self, values: Mapping[str, Any]) -> Any:
        """Call the step's function with the values of its options; those it lacks have defaults."""
        function = pkgutil.resolve_name(f"dlperf.analysis.{self.function}")
        own = [option for option in self.options if option.given]
        return function(*(values.get(option.key, option.default) for option in own))


def in_round(folder: str | Path, path: str) -> str:
    """The path of a round's file: 'results/laptop/cells.tsv'; of '..', 'results'."""
    return os.path.normpath(os.path.join(folder, path))


def _searched(cases: Sequence[Case]) -> bool:
    return any(case.searched and not case.unsupported for case in cases)


_CONFIG = Option("config", INPUT, "config.yaml")
_MEASUREMENTS = Option("measurements", INPUT, names.MEASUREMENTS)
_PARITY = Option("parity", INPUT, "parity.tsv")
_CERTIFICATES = Option("certificates", INPUT, "certificates.tsv")
_CHECKS = Option("checks", INPUT, "checks.tsv")
_SUMS = Option("sums", INPUT, names.SUMS)
_SEARCHES = Option("searches", INPUT, names.SEARCHES, belongs=_searched)
_LIMITS = Option("limits", INPUT, "limits.tsv", belongs=bool)  # nothing imported was probed
_CELLS = Option("cells", INPUT, names.CELLS)
_ROOFLINE = Option("roofline", INPUT, names.ROOFLINE)
_RUNS = Option("runs", PARAM, "runs")  # thousands of records do not fit on a command line
_SHARED = Option("shared", PARAM, "..")  # environments, data and certificates of all rounds
_OTHERS = Option("others", PARAM, names.BESIDE)  # copies of tables of other rounds
_ROUND = Option("round", PARAM, ".")
_PUBLISHED = Option("published", PARAM)
_OUT = Option("out", OUTPUT)


def _written(option: Option) -> Option:
    return option._replace(role=OUTPUT)


def _found(*options: Option) -> tuple[Option, ...]:
    """What a step finds in a folder that it is given."""
    return tuple(option._replace(given=False) for option in options)


MERGE = Step(
    "merge",
    "round.merge:merge",
    (
        *(_CONFIG, _RUNS, _SHARED),
        *map(_written, (_MEASUREMENTS, _PARITY, _CERTIFICATES, _CHECKS, _SUMS)),
        Option("latencies", OUTPUT, names.LATENCIES, belongs=names.have_latencies),
        Option("curves", OUTPUT, names.CURVES, belongs=names.have_curves),
        _written(_SEARCHES),
    ),
)
LIMITS = Step(
    "limits",
    "round.calibration.limits:limits",
    (
        *(_CONFIG, _MEASUREMENTS),
        Option("nodes", PARAM, "nodes"),
        Option("peaks", INPUT, names.PEAKS),
        _OUT._replace(path="limits.tsv"),
    ),
)
CELLS = Step(
    "cells",
    "round.cells:cells",
    (_MEASUREMENTS, _CERTIFICATES, _CHECKS, _LIMITS, _OUT._replace(path=names.CELLS)),
)
ROOFLINE = Step(
    "roofline",
    "round.distances:distances",
    (_CELLS, _MEASUREMENTS, _LIMITS, _OUT._replace(path=names.ROOFLINE)),
)
TABLE = Step(
    "table",
    "report.tables:table",
    (
        _CELLS,
        Option("table", WILDCARD, kind=str),
        *(Option(kind, OUTPUT, f"tables/{{table}}.{kind}") for kind in names.TABLED),
    ),
)
MARKDOWN = Step(
    "markdown",
    "report.markdown:markdown",
    (_CELLS, _MEASUREMENTS, _OUT._replace(path="tables.md")),
)
FIGURE = Step(
    "figure",
    "commands:figure",
    (
        _CELLS,
        Option("figure", WILDCARD, kind=str),
        *(
            Option(kind, OUTPUT, f"figures/{{figure}}.{kind}", required=False)
            for kind in (*names.DRAWN, *names.DRAWN_ON_REQUEST)
        ),
    ),
)
FIGURES = Step(
    "figures",  # writes them beside the cells, in figures/
    "report.figures:figures",
    (
        *(_CONFIG, _CELLS),
        Option("only", OUTPUT, default=(), required=False, several=True),
        *_found(Option("latencies", INPUT, names.LATENCIES, belongs=names.have_latencies)),
        *_found(Option("curves", INPUT, names.CURVES, belongs=names.have_curves)),
    ),
)
BESIDE = Step(  # of a round whose config names something under `beside`
    "beside",
    "compare.beside:beside",
    (
        *(_CONFIG, _CELLS, _MEASUREMENTS, _PARITY, _SHARED, _OTHERS),
        _OUT._replace(path=names.VERDICTS),
    ),
)
BESIDE_FIGURE = Step(
    "beside-figure",
    "report.published:figure",
    (
        _CONFIG,
        Option("beside", INPUT, names.VERDICTS),
        *(_SHARED, _OTHERS),
        Option("other", WILDCARD, kind=str),
        *(
            Option(kind, OUTPUT, f"figures/{names.BESIDE}-{{other}}.{kind}", required=False)
            for kind in (*names.DRAWN, *names.DRAWN_ON_REQUEST)
        ),
    ),
)
REPORT = Step(
    "report",
    "report.page:report",
    (
        *(_CONFIG, _ROUND, _SHARED, _OUT._replace(path="report.html")),
        *_found(_MEASUREMENTS, _PARITY, _CERTIFICATES, _CHECKS, _CELLS, _LIMITS, _ROOFLINE, _SUMS),
        *_found(_SEARCHES),
    ),
)
#: From records to cells and what is compared with limits, in the order in which they run.
TO_CELLS = (MERGE, LIMITS, CELLS, ROOFLINE)

IMPORT = Step(
    "import",
    "commands:import_round",
    (
        _CONFIG._replace(path=""),
        Option("out", PARAM, "."),
        *_found(_written(_CONFIG), Option("runs", OUTPUT, "runs")),
    ),
)
VALUES = Step(
    "values",
    "publications.records:write_values",
    (_CONFIG, _RUNS._replace(role=INPUT), _OUT._replace(path="values.tsv")),
)
REPLAY = Step(
    "replay",
    "report.replay:replay",
    (
        *(_ROUND, _PUBLISHED),
        *_found(_CELLS, Option("values", INPUT, "values.tsv")),
        *_found(Option("page", OUTPUT, "report.html")),
        *_found(Option("tables", OUTPUT, "tables"), Option("figures", OUTPUT, "figures")),
    ),
)
SPEEDUPS = Step(
    "speedups",
    "commands:speedups",
    (
        *(_PUBLISHED, Option("out", PARAM, ".")),
        *_found(
            Option("ratios", OUTPUT, "speedups.tsv"),
            Option("contradictions", OUTPUT, "contradictions.tsv"),
            Option("page", OUTPUT, "contradictions.md"),
        ),
    ),
)
SHOW_CERTIFICATES = Step("certificates", "commands:certificates", (_CONFIG, _SHARED))
SHOW_NODES = Step("nodes", "commands:nodes", (Option("folder", PARAM, "nodes"),))
AUDIT = Step(
    "audit",
    "commands:audit",
    (
        *(Option("round", PARAM), Option("out", PARAM)),
        Option("sha256", PARAM, kind=str, default="", required=False),
        Option("allow-other-versions", PARAM, kind=bool, default=False, required=False),
    ),
)
ARCHIVE = Step("archive", "audit.archive:archive", (_ROUND, Option("out", PARAM)))
COMPARE = Step(
    "compare",
    "commands:compare",
    (
        *(Option("baseline", PARAM), _ROUND),
        Option("out-tsv", OUTPUT, "compare/{metric}{baseline}.tsv"),
        Option("out-html", OUTPUT, "compare/{metric}{baseline}.html"),
        Option("tolerance", PARAM, kind=float, default=0.02, required=False),
        Option("metric", PARAM, kind=str, default="", required=False),
    ),
)
VERDICT = Step("verdict", "commands:verdict", (Option("tsv", INPUT), Option("html", INPUT)))

STEPS = {
    step.name: step
    for step in (
        *(MERGE, LIMITS, CELLS, ROOFLINE, TABLE, MARKDOWN, FIGURE, FIGURES),
        *(BESIDE, BESIDE_FIGURE, REPORT),
        *(SHOW_CERTIFICATES, SHOW_NODES, IMPORT, VALUES, REPLAY, SPEEDUPS),
        *(AUDIT, ARCHIVE, COMPARE, VERDICT),
    )
}
