"""A round that is there: found by its name or its path, and read.

In: what a user calls it. Out: its folder; what merge and cells made of it. Finding is cheap: the
workflow does it while it is parsed.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dlperf.analysis.round import metrics
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import (
    Cell,
    Measurement,
    Parity,
    read_cells,
    read_measurements,
    read_parity,
)

#: What a round must have to be compared with.
FILES = ("config.yaml", "measurements.tsv.gz", "parity.tsv", "cells.tsv")


@dataclass(frozen=True)
class Round:
    """A round's tables. `shared` is the folder beside it that has environments/."""

    name: str
    folder: Path
    config: dict[str, Any]
    cells: list[Cell]
    repetitions: list[Measurement]
    parity: list[Parity]

    @property
    def shared(self) -> Path:
        return self.folder.parent


def read(folder: Path, metric: str = "") -> Round:
    """Read a round's tables, and of its cells those of a metric; without one, each scenario's own.

    Raises AnalysisError for a file that is missing or unreadable.
    """
    path = folder / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        name = str(config["round"])
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise AnalysisError(f"{path}: not the config of a round: {error}") from None
    return Round(
        name,
        folder,
        config,
        metrics.select(read_cells(folder / "cells.tsv"), metric),
        read_measurements(folder / "measurements.tsv.gz"),
        read_parity(folder / "parity.tsv"),
    )


def find(asked: str, results: Path = Path("results"), own: str = "", key: str = "baseline") -> Path:
    """The folder of the round `asked`: a name in `results`, a round's folder, or one above it.

    `own` is the round that is to be compared, `key` what messages call the option that asks.
    Raises LookupError with what is there instead.
    """
    there = [folder.name for folder in _inside(results) if folder.name != own]
    listed = f" [there are: {', '.join(there)}]" if there else " [there is none yet]"
    if not asked:
        raise LookupError(f"say which round to compare with: --config baseline=<round>{listed}")
    if "/" not in asked and (results / asked / "config.yaml").exists():
        folder = results / asked
    elif Path(asked).is_dir():
        folder = _only(Path(asked), key)
    else:
        nearest = difflib.get_close_matches(asked, there, 1)
        hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
        raise LookupError(f"{key}: no round '{asked}' in {results}/{hint}{listed}")
    if own and folder.resolve() == (results / own).resolve():
        raise LookupError(f"{key}: '{asked}' is the round itself; name another one{listed}")
    for name in FILES:
        if not (folder / name).exists():
            raise LookupError(
                f"{key}: {folder / name} does not exist; make it with: snakemake --profile "
                f"local --configfile {folder / 'config.yaml'} -- {folder / 'cells.tsv'}"
            )
    return folder


def _only(folder: Path, key: str) -> Path:
    """The one round in a folder: itself, or below it, as in an unpacked archive."""
    if (folder / "config.yaml").exists() and (folder / "cells.tsv").exists():
        return folder
    found = [*_inside(folder), *_inside(folder / "results")]
    if len(found) == 1:
        return found[0]
    listed = f" [there are: {', '.join(map(str, found))}]" if found else ""
    what = "has several rounds; name one of them" if found else "has no round's config.yaml"
    raise LookupError(f"{key}: {folder} {what}{listed}")


def _inside(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/config.yaml"))
