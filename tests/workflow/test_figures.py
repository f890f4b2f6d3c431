"""Which figures the workflow draws again, and how many processes draw them: real Snakemake runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import generated_round
import pytest
import yaml
from conftest import ROOT

COMMAND = [str(Path(sys.executable).parent / "snakemake"), "-s", str(ROOT / "Snakefile")]
COMMAND += ["--profile", str(ROOT / "profiles/local"), "--configfile", "mine.yaml", "--"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the records of a round, of which nothing is drawn yet."""
    config = generated_round.config(
        frameworks=["pytorch"], topologies=["1n1d", "1n2d"], resnet50_batch_sizes={"fp32": [8, 16]}
    )
    generated_round.write_round(tmp_path, config)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def drawn_by(folder: Path, *targets: str) -> tuple[dict[str, int], set[str]]:
    """(how many jobs of each rule drew figures, the files that they drew)."""
    before = times(folder)
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [*COMMAND, *targets], cwd=folder, env=environ, text=True, capture_output=True, timeout=600
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    rules = re.findall(
        r"^\W*(missing figures|stale figures|figure)\W+(\d+)\W*$", said, re.MULTILINE
    )
    after = times(folder)
    drawn = {name for name, time in after.items() if time != before.get(name)}
    return {name: int(count) for name, count in rules}, drawn


def times(folder: Path) -> dict[str, int]:
    there = folder.glob("results/laptop/figures/*")
    return {path.name: path.stat().st_mtime_ns for path in there}


def test_one_job_draws_all_and_a_figure_that_is_missing_is_drawn_alone(folder):
    jobs, every = drawn_by(folder, "figures")
    assert jobs == {"missing figures": 1} and len(every) > 4
    assert drawn_by(folder, "figures") == ({}, set())

    # a figure, or one of its two files
    figures = folder / "results/laptop/figures"
    (gone, *_), (half, *_) = (sorted(figures.glob(f"*.{kind}")) for kind in ("svg", "png"))
    stored = gone.read_bytes()
    gone.unlink()
    gone.with_suffix(".png").unlink()
    both = {gone.name, gone.with_suffix(".png").name}
    assert drawn_by(folder, "figures") == ({"missing figures": 1}, both)
    assert gone.read_bytes() == stored
    half.unlink()
    assert drawn_by(folder, "figures")[1] == {half.name, half.with_suffix(".svg").name}
    assert drawn_by(folder, "figures") == ({}, set())

    # other cells, and a figure less: nothing is drawn twice, and nothing stays as it was
    cells = folder / "results/laptop/cells.tsv"
    gone.unlink()
    cells.write_text(cells.read_text().replace("images/s", "pictures/s"))
    jobs, drawn = drawn_by(folder, "figures")
    assert jobs == {"missing figures": 1, "stale figures": 1} and drawn == every
    cells.write_text(cells.read_text().replace("pictures/s", "photos/s"))
    assert drawn_by(folder, "figures") == ({"stale figures": 1}, every)

    # one that is asked for by its file is drawn alone too, and not again with the others
    gone.unlink()
    jobs, drawn = drawn_by(folder, f"results/laptop/figures/{gone.name}")
    assert jobs == {"figure": 1} and drawn == both
    assert drawn_by(folder, "figures") == ({}, set())
