"""Makes everything again that a round makes from its records, and compares it with the round's.

In: a round's folder, which is not touched, and a scratch folder. Out: the name of each file that
was made, and its differences. Tables, figures and pages are compared whole, by bytes.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dlperf import plan
from dlperf.analysis import steps
from dlperf.analysis.audit.differences import (
    ABSENT,
    TABLES,
    Difference,
    as_computed_with,
    compare,
)
from dlperf.analysis.audit.raw import FOLDERS
from dlperf.analysis.audit.versions import SAME, Same
from dlperf.analysis.round import checksums, names, verdicts
from dlperf.contract.files import write


def made_again(
    folder: Path, scratch: Path, same: Same = SAME
) -> Iterator[tuple[str, list[Difference] | None]]:
    """Make everything that is made from records, in `scratch`: (file, what differs) when made.

    What differs is None where the round does not have the file. Where `same` says so, a table that
    differs by rounding only is replaced by the round's own: what is derived from it has the same
    bytes then.
    """
    from dlperf.plan.show import tsv

    def compared(name: str) -> tuple[str, list[Difference] | None]:
        return name, _compared(name, folder, scratch, same)

    config = plan.load(folder / "config.yaml")
    cases = plan.expand(config)
    again = _Again(folder, scratch, cases)
    if (folder / "plan.tsv").exists():
        (scratch / "plan.tsv").write_text(tsv(config, cases), encoding="utf-8")
        yield compared("plan.tsv")
    tables, others = names.table_ids(cases), names.of_other_metrics(cases)
    tables += [name for name in others if any(folder.glob(f"tables/{name}.*"))]  # on request
    figures = _kinds_of_figures(folder, cases)
    with ProcessPoolExecutor(min(len(tables) + 1, len(os.sched_getaffinity(0)))) as pool:

        def shown(of: Path) -> list[Future[list[str]]]:
            draw = partial(_figure, of) if same.drawing else partial(_kept_figure, folder)
            drawn = [pool.submit(draw, scratch, name, kinds) for name, kinds in figures.items()]
            return drawn + [pool.submit(_table, of, scratch, name) for name in tables]

        # Drawn from the round's cells while records are read: of use where those turn out right.
        beside = [names.LATENCIES] if names.have_latencies(cases) else []
        beside += [names.CURVES] if names.have_curves(cases) else []
        drawn_from = [names.CELLS, *beside]
        there = folder / names.CELLS
        waiting = shown(there) if all((folder / each).exists() for each in drawn_from) else []
        try:
            for step in steps.TO_CELLS:
                made = again.run(step)
                yield from map(compared, made)
            if not waiting or any(
                (folder / each).read_bytes() != (scratch / each).read_bytes() for each in drawn_from
            ):
                _forget(waiting)
                waiting = shown(scratch / names.CELLS)
            for each in waiting:
                yield from map(compared, each.result())
            yield from map(compared, again.run(steps.MARKDOWN))
        finally:
            _forget(waiting)
    for name in ("nodes", names.BESIDE):
        if (folder / name).exists():
            (scratch / name).symlink_to((folder / name).resolve())
    if config.beside:
        yield from map(compared, again.run(steps.BESIDE))
        for name in verdicts.figures(config.beside):
            kinds = [*names.DRAWN, *_there(folder, name, names.DRAWN_ON_REQUEST)]
            kept = partial(_kept_figure, folder, scratch)
            yield from map(compared, (again.draw_beside if same.drawing else kept)(name, kinds))
    yield from map(compared, again.run(steps.REPORT))


@dataclass(frozen=True)
class _Again:
    """Runs steps of the analysis in `scratch`, on what is raw in `folder`."""

    folder: Path
    scratch: Path
    cases: Sequence[plan.Case]
    made: set[str] = field(default_factory=set)

    def run(self, step: steps.Step) -> list[str]:
        """Run a step; returns the names of the files that it made."""
        own = step.of_round(self.cases)
        step.run({option.key: self._place(option) for option in own})
        made = [option.path for option in own if option.role == steps.OUTPUT]
        self.made.update(made)
        return made

    def draw_beside(self, name: str, kinds: Sequence[str]) -> list[str]:
        """Draw the verdicts beside one publication or round; returns the names of the files."""
        step, other = steps.BESIDE_FIGURE, name.removeprefix(f"{names.BESIDE}-")
        read = (steps.INPUT, steps.PARAM)
        places = {each.key: self._place(each) for each in step.options if each.role in read}
        made = {
            each.key: each.path.format(other=other)
            for each in step.options
            if each.role == steps.OUTPUT and each.key in kinds
        }
        files = {kind: self.scratch / path for kind, path in made.items()}
        step.run({**places, **files, "other": other})
        return [*made.values()]

    def _place(self, option: steps.Option) -> Path:
        if option.path == "..":
            return self.folder.parent
        if option.path == ".":
            return self.scratch  # has what was made so far
        if option.role == steps.OUTPUT or option.path in self.made:
            return self.scratch / option.path
        return self.folder / option.path


def _kinds_of_figures(folder: Path, cases: Sequence[plan.Case]) -> dict[str, list[str]]:
    """{figure: kinds of its files}: those that are always made, and what there is on request."""
    found = {name: list(names.DRAWN) for name in names.figure_ids(cases)}
    for name in [*found, *names.of_other_metrics(cases)]:
        kinds = names.DRAWN_ON_REQUEST if name in found else (*names.DRAWN, *names.DRAWN_ON_REQUEST)
        if there := _there(folder, name, kinds):
            found[name] = [*found.get(name, []), *there]
    return found


def _there(folder: Path, name: str, kinds: Sequence[str]) -> list[str]:
    """The kinds in which the round has a figure."""
    return [kind for kind in kinds if (folder / f"figures/{name}.{kind}").exists()]


def _forget(waiting: list[Future[list[str]]]) -> None:
    for each in waiting:
        each.cancel()
    wait(waiting)


def _table(cells: Path, scratch: Path, name: str) -> list[str]:
    return _shown(steps.TABLE, cells, scratch, name, names.TABLED)


def _figure(cells: Path, scratch: Path, name: str, kinds: Sequence[str]) -> list[str]:
    return _shown(steps.FIGURE, cells, scratch, name, kinds)


def _shown(
    step: steps.Step, cells: Path, scratch: Path, name: str, kinds: Sequence[str]
) -> list[str]:
    """Make a table or a figure in these kinds; returns the names of their files."""
    made = {
        option.key: option.path.format(**{step.name: name})
        for option in step.options
        if option.role == steps.OUTPUT and option.key in kinds
    }
    step.run({"cells": cells, step.name: name, **{k: scratch / path for k, path in made.items()}})
    return [made[kind] for kind in kinds]


def _kept_figure(folder: Path, scratch: Path, name: str, kinds: Sequence[str]) -> list[str]:
    """The round's own figure, for the report, where it cannot be drawn again."""
    kept = [f"figures/{name}.{kind}" for kind in kinds]
    for each in kept:
        if (folder / each).exists():
            write(scratch / each, (folder / each).read_bytes())
    return kept


def _compared(name: str, folder: Path, scratch: Path, same: Same) -> list[Difference] | None:
    if not (folder / name).is_file():
        return None
    stored, made = ((each / name).read_bytes() for each in (folder, scratch))
    if name == checksums.NAME:
        return _list_compared(folder, scratch)
    if name == "report.html":
        made = as_computed_with(made, same.said)
    found = compare(name, stored, made)
    rounding = same.rounding and name.endswith(TABLES)
    if rounding and found and all(each.rounding for each in found):
        write(scratch / name, stored)
    return found


def _list_compared(folder: Path, scratch: Path) -> list[Difference]:
    """The files that the list names against those that it should name.

    What is in the round's folder and not listed, or listed and not there, was told before.
    """
    stored, made = (checksums.parse(each / checksums.NAME)[0] for each in (folder, scratch))
    lacking = [name for name in made if name not in stored and name.split("/")[0] not in FOLDERS]
    beyond = [name for name in stored if name not in made and (folder / name).exists()]
    if lacking or beyond:
        return [
            *(Difference(name, "", ABSENT, "has to be listed") for name in lacking),
            *(Difference(name, "", "is listed", "is nothing of this round") for name in beyond),
        ]
    if stored != made:
        return []
    return compare(
        checksums.NAME, *((each / checksums.NAME).read_bytes() for each in (folder, scratch))
    )
