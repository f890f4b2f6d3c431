"""No record is ever deleted, and `all` measures what the plan says: real Snakemake runs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import disks
import pytest
import yaml
from conftest import ROOT, SMALL_ROUND, snakemake, the_first
from generated_round import write_round

from dlperf import plan

ROUND = {
    **SMALL_ROUND,
    "frameworks": ["pytorch"],
    "topologies": ["1n1d"],
    "workloads": {
        "resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": [2]}, "image_size": 32}
    },
}
(CASE,) = plan.expand(plan.load(ROUND))
RECORD = f"results/small/runs/{CASE.folder}/rep1.json"
ENVIRONMENT = "results/environments/pytorch.cpu/env.json"
#: In place of the stopwatch: writes the record, and then does what a test puts in.
STOPWATCH = """
import os, sys, time
out = sys.argv[sys.argv.index("--out") + 1]
open(out, "w").write('{"status": "ok", "reason": "", "settings": {}}')
"""


@pytest.fixture
def folder(checkout: Path) -> Path:
    """A checkout with a made-up round, of which everything is there and equally old."""
    for shared in ("environments", "data", "certificates"):
        (checkout / "results" / shared).unlink()
    write_round(checkout, ROUND)
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(ROUND))
    summary = snakemake("--summary", "all", cwd=checkout).stdout
    for line in summary.splitlines()[1:]:
        path = checkout / line.split("\t")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for path in [checkout, *checkout.rglob("*")]:
        os.utime(path, (1.7e9, 1.7e9), follow_symlinks=False)
    return checkout


def would_run(folder: Path, *targets: str) -> dict[str, int]:
    """How many jobs of each rule the next call runs."""
    done = snakemake("-n", *(targets or ("all",)), cwd=folder)
    counts = re.findall(r"^ *([a-z ]+?) +(\d+) *$", done.stdout + done.stderr, re.MULTILINE)
    return {rule: int(count) for rule, count in counts}


def test_a_round_that_is_there_is_not_made_again(folder):
    assert would_run(folder) == {}
    (folder / ENVIRONMENT).unlink()
    (folder / "results/small/report.html").unlink()
    assert "repetition" not in would_run(folder), "nor measured where an environment is missing"


def test_a_record_that_was_deleted_is_measured_by_all_as_the_plan_says(folder):
    (folder / RECORD).unlink()
    asked = would_run(folder)
    assert asked["repetition"] == 1 and asked["merge"] == 1 and asked["report page"] == 1
    assert "1 done, 1 missing" in snakemake("plan", cwd=folder).stdout


def test_a_record_of_other_settings_is_measured_again_without_snakemakes_notes(folder):
    changed = {**ROUND, "steps": {"warmup": 1, "measured": 3}}
    (folder / "config/config.yaml").write_text(yaml.safe_dump(changed))
    assert would_run(folder)["repetition"] == 2
    assert "2 outdated" in snakemake("plan", cwd=folder).stdout


def test_an_input_that_is_dated_ahead_is_refused_before_anything_starts(folder):
    (folder / RECORD).unlink()
    later = time.time() + 1200
    os.utime(folder / ENVIRONMENT, (later, later))
    done = snakemake("all", cwd=folder, check=False)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"{ENVIRONMENT}: is dated 20" in said and "about 20 minutes ahead" in said
    assert f"`touch {ENVIRONMENT}`" in said and "Traceback" not in said
    assert not (folder / RECORD).exists()


@pytest.mark.parametrize(
    ("then", "status"),
    the_first(
        1,
        [
            ("sys.exit(1)", 1),
            (f"os.utime({ENVIRONMENT!r}, (time.time() + 1200, time.time() + 1200))", 0),
            ("os.utime(out, (1.6e9, 1.6e9))", 0),
        ],
    ),
    ids=["the job fails", "an input gets a later time", "the node's clock is behind"],
)
def test_a_record_stays_whatever_happens_then(folder, then, status):
    (folder / "scripts/dlperf/measure/__main__.py").write_text(STOPWATCH + then)
    (folder / RECORD).unlink()
    done = snakemake("--", RECORD, cwd=folder, check=False)
    assert done.returncode == status, done.stderr
    assert json.loads((folder / RECORD).read_text())["status"] == "ok"
    assert would_run(folder, "--", RECORD) == {}, "it counts at the next call"


def test_a_record_that_is_measured_again_stays_until_there_is_another(folder):
    before = (folder / RECORD).read_bytes()
    (folder / "scripts/dlperf/measure/__main__.py").write_text("import sys; sys.exit(1)")
    assert snakemake("-f", "--", RECORD, cwd=folder, check=False).returncode == 1
    assert (folder / RECORD).read_bytes() == before


@pytest.mark.parametrize(
    ("place", "how", "told"),
    the_first(
        2,
        [
            ("", disks.READ_ONLY, ".snakemake: is on a disk that is mounted read-only"),
            (".snakemake", disks.FULL, ".snakemake: the disk is full; make room"),
            ("results/small", disks.FULL, "results/small: the disk is full; make room"),
            (
                "results/small",
                disks.READ_ONLY,
                "results/small: is on a disk that is mounted read-only",
            ),
        ],
    ),
)
def test_a_disk_that_takes_nothing_is_a_line_and_no_traceback(checkout, place, how, told):
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(ROUND))
    (checkout / place).mkdir(exist_ok=True)
    command = [str(Path(sys.executable).parent / "snakemake"), "--profile", "local", "plan"]
    done = disks.run(command, checkout / place, how, cwd=checkout)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and f"\n{told}" in said, said
    assert "Traceback" not in said and "Logging error" not in said


@pytest.mark.usefixtures("heeding_ctrl_c")
def test_ctrl_c_while_snakemake_is_imported_is_no_traceback(tmp_path):
    """`make` puts a file into .venv, as nothing else of the project is read so early."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (packages,) = tmp_path.glob("lib/python3*/site-packages")
    (packages / "ctrl_c.pth").write_text((ROOT / "envs/ctrl_c.pth").read_text())
    program = tmp_path / "bin/snakemake"
    program.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run([tmp_path / "bin/python", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == "Stopped. The same command resumes.\n"
    program.write_text("1 / 0")
    done = subprocess.run([tmp_path / "bin/python", program], capture_output=True, text=True)
    assert "ZeroDivisionError" in done.stderr
