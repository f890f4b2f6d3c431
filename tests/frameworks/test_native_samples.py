"""Each framework's own reader returns the samples of the manifest, in its order."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import snakemake, some_of

from dlperf.loaders.formats import OF_FRAMEWORK
from dlperf.loaders.native import READERS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def digest(environments, sample_data) -> str:
    """Of the sample photographs, in all formats; the workflow makes those that are missing."""
    formats = sorted(set(OF_FRAMEWORK.values()))
    manifests = [f"results/data/sample-{format}/manifest.json" for format in formats]
    snakemake("--", *manifests)
    digests = {json.loads((ROOT / path).read_text())["samples_sha256"] for path in manifests}
    assert len(digests) == 1
    return digests.pop()


@pytest.mark.parametrize("framework", some_of(READERS, "tensorflow", "mxnet", "jax"))
def test_its_own_reader_returns_the_samples_of_the_manifest(framework, environments, digest):
    folder = environments / f"{framework}.cpu"
    built = json.loads((folder / "env.json").read_text())
    command = [folder / "bin/python", "-m", "dlperf.loaders.native", "--framework", framework]
    command += ["--data", ROOT / f"results/data/sample-{OF_FRAMEWORK[framework]}"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), **built["environ"]}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"samples": 400, "samples_sha256": digest}
