"""benchmarks/watch.py and card/steps.py with real steps, on this machine's CPU."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, SCRIPTS, snakemake

sys.path.insert(0, str(ROOT / "benchmarks"))
from card import table

PROGRAMS = {"pytorch": None, "jax": "program.txt.gz"}


def case_of(framework: str) -> str:
    made = [sys.executable, "-m", "dlperf.measure", "case", "--workload", "resnet50"]
    made += ["--framework", framework, "--device", "cpu", "--batch-size", "2"]
    made += ["--image-size", "32", "--compiler", {"pytorch": "none", "jax": "xla"}[framework]]
    environ = {"PYTHONPATH": str(SCRIPTS), "PATH": "/usr/bin:/bin"}
    return subprocess.run(made, env=environ, capture_output=True, text=True, check=True).stdout


def run(framework: str, script: str, *options: str) -> subprocess.CompletedProcess:
    environment = f"results/environments/{framework}.cpu/env.json"
    snakemake("--", environment)
    python = ROOT / json.loads((ROOT / environment).read_text())["interpreter"]
    return subprocess.run(
        [str(python), str(ROOT / "benchmarks" / script), *options],
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.parametrize("framework", PROGRAMS)
def test_a_step_is_profiled_with_its_longest_kernels(framework, tmp_path):
    options = ["--case", case_of(framework), "--out", str(tmp_path), "--profile", "--programs"]
    done = run(framework, "card/steps.py", *options)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "kernels.json").read_text())
    assert found["on"] == "host" and found["kernels"] > 100 and len(found["top"]) == 20
    spent = [each["us"] for each in found["top"]]
    assert spent == sorted(spent, reverse=True) and found["busy_us"] >= sum(spent) * 0.999
    ran = json.loads((tmp_path / "steps.json").read_text())
    assert len(set(ran["loss"])) == len(ran["loss"]) == 5 and ran["clock"] == "host"
    if PROGRAMS[framework]:
        text = gzip.decompress((tmp_path / PROGRAMS[framework]).read_bytes()).decode()
        assert "convolution" in text and "ENTRY" in text


def test_steps_are_watched_for_some_time(tmp_path):
    options = ["--case", case_of("pytorch"), "--out", str(tmp_path), "--seconds", "2"]
    done = run("pytorch", "watch.py", *options)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "watch.json").read_text())
    assert found["window_seconds"] > 0.3 and found["problem"] == "a CPU has nothing to read"
    assert found["step_milliseconds"] is None  # by the host's clock
    assert (tmp_path / "card.tsv").read_text().count("\n") == 1
    assert "samples/s over" in (tmp_path / "watch.md").read_text()


def test_the_same_steps_change_weights_alike(tmp_path):
    ends = [tmp_path / "with", tmp_path / "without"]
    for out, more in zip(ends, ([], ["--no-graphs"]), strict=True):
        options = ["--case", case_of("pytorch"), "--out", str(out), "--changes", "3", *more]
        done = run("pytorch", "card/steps.py", *options)
        assert done.returncode == 0, done.stderr[-3000:]
    said = table.apart(*(out / "changes.npz" for out in ends))
    # on a CPU both are the same steps; threads add in another order
    assert float(said.split("apart by ")[1].split("%")[0]) < 0.1, said
    with np.load(ends[0] / "changes.npz") as found:
        changed = sum(bool(np.any(found[name])) for name in found.files)
        # with a batch of 2, some scales change by less than float32 can tell
        assert len(found.files) == 161 and changed > 100


@pytest.mark.parametrize("option", ["--no-graphs", "--benchmark-limit=10"])
def test_jax_has_neither_graphs_nor_searches_of_pytorch(tmp_path, option):
    options = ["--case", case_of("jax"), "--out", str(tmp_path / "out"), option]
    done = run("jax", "card/steps.py", *options)
    assert done.returncode == 1
    assert done.stderr == "error: --case: jax [allowed: pytorch]\n"
