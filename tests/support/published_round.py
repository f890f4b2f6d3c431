"""Publications as the workflow imports them, and one that has what a test needs."""

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis_steps import holding_against

from dlperf.analysis.__main__ import main
from dlperf.analysis.compare import rounds
from dlperf.analysis.publications.values import COLUMNS
from dlperf.analysis.round import names
from dlperf.analysis.schema.files import Row, read_table


def imported(config: Path, folder: Path) -> Path:
    """Import, merge and summarise as the workflow does."""
    made = {
        name: str(folder / name)
        for name in ("measurements.tsv.gz", "parity.tsv", "certificates.tsv", "cells.tsv")
    }
    runs = ["--config", str(folder / "config.yaml"), "--runs", str(folder / "runs")]
    proofs = ["--certificates", made["certificates.tsv"], "--checks", str(folder / "checks.tsv")]
    measured = ["--measurements", made["measurements.tsv.gz"]]
    assert main(["import", "--config", str(config), "--out", str(folder)]) == 0
    shared = ["--shared", str(folder.parent), "--parity", made["parity.tsv"]]
    shared += ["--sums", str(folder / "SHA256SUMS")]
    assert main(["merge", *runs, *shared, *measured, *proofs]) == 0
    assert main(["cells", *measured, *proofs, "--out", made["cells.tsv"]]) == 0
    assert main(["values", *runs, "--out", str(folder / "values.tsv")]) == 0
    return folder


def publish(
    results: Path, *rows: Mapping[str, Any], name: str = "mine", meant: Sequence[str] = ()
) -> Path:
    """Import a tidy CSV of these rows as results/imported-<name>; `meant`: its config's `names`."""
    path = results / f"{name}.csv"
    others = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, [*COLUMNS, *others], restval="")
        writer.writeheader()
        writer.writerows(rows)
    config = results / f"{name}.yaml"
    config.write_text(f"round: imported-{name}\ntitle: {name.title()}\nfiles: [{path}]\n")
    if meant:
        config.write_text(f"{config.read_text()}names: [{', '.join(meant)}]\n")
    return imported(config, results / f"imported-{name}")


def held_against(
    results: Path, *rows: Mapping[str, Any], name: str = "mine", meant: Sequence[str] = ()
) -> list[Row]:
    """The verdicts of an analysed round beside a publication of these rows."""
    publish(results.parent, *rows, name=name, meant=meant)
    assert main(holding_against(results)) == 0
    return read_table(results / names.VERDICTS)


def copy_beside(results: Path, old: Path, name: str = "old") -> Path:
    """Copy of another round what the rule `round_beside` copies."""
    folder = results / names.BESIDE / name
    folder.mkdir(parents=True)
    for each in rounds.FILES:
        shutil.copyfile(old / each, folder / each)
    return folder
