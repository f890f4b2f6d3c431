"""Each framework's own reader crops, flips, normalises and shuffles as it says, late batches too.

Asked by pictures that tell themselves where they were cut (tests/support/plain_inputs.py): what a
reader draws its numbers from is its own affair.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import plain_inputs as plain
import pytest
from conftest import ROOT, SCRIPTS
from test_readers import CHANNELS_LAST, EXACT, a_run

from dlperf import frameworks
from dlperf.loaders.formats import OF_FRAMEWORK

BATCH_SIZE, BATCHES, SIZE = 8, 60, 48  # five batches an epoch, twelve epochs
#: Reads batches, and says of each picture what it tells of itself.
READ = """
import json, os, sys
import numpy as np
from read import opened
from dlperf.contract.run import Run

found = []
with opened(Run.load(sys.argv[1])) as (_, reader):
    reader.fill()
    for _ in range(int(sys.argv[2])):
        images, labels = reader.arrays(reader.next())
        found += [np.array(images, np.float32), np.array(labels).ravel()]
np.savez(sys.argv[3], *found)
sys.stdout.flush()
os._exit(0)
"""
#: A reader's file, what stands there, and what a wrong one has in its place.
WRONG = {
    ("mxnet", "no flips"): ("rand_mirror=True", "rand_mirror=False"),
    ("mxnet", "no crops"): ("random_resized_crop=True", "random_resized_crop=False"),
    ("mxnet", "small crops alone"): ("max_random_area=CROP_AREA[1]", "max_random_area=0.5"),
    ("mxnet", "no shuffle"): ("shuffle=True", "shuffle=False"),
    ("mxnet", "another deviation"): ("float(1 / scale)", "1.1 * float(1 / scale)"),
    ("tensorflow", "no flips"): ("tf.image.random_flip_left_right(image, seed)", "image"),
    ("tensorflow", "another mean"): ("(image - MEAN)", "(image - 1.15 * MEAN)"),
    ("tensorflow", "labels by one"): (
        'tf.cast(parsed["image/class/label"], tf.int32)',
        'tf.cast(parsed["image/class/label"] + 1, tf.int32)',
    ),
    ("tensorflow", "large crops alone"): ("area_range=CROP_AREA", "area_range=(0.4, 1.0)"),
    ("pytorch", "the first batch again"): (
        "    for pixels, labels in read:\n        # NHWC",
        "    first = next(iter(read))\n    for pixels, labels in iter(lambda: first, None):\n"
        "        # NHWC",
    ),
    ("pytorch", "flipped alike"): (
        'files.normalised(pixels.numpy(), "NHWC"))',
        'files.normalised(pixels.numpy(), "NHWC")[:, ::-1].copy())',
    ),
}


@pytest.fixture(scope="session")
def ramps(environments, tmp_path_factory):
    """A function: the folder with a framework's shards of ramps."""
    source = tmp_path_factory.mktemp("ramps")
    plain.write_ramps(source)

    def made(framework: str) -> Path:
        out = source.with_name(f"ramps-{OF_FRAMEWORK[framework]}")
        if not (out / "manifest.json").exists():
            own = framework == "mindspore"
            python = environments / "mindspore.cpu/bin/python" if own else sys.executable
            command = [python, "-m", "dlperf.prepare.images", "--source", source, "--out", out]
            command += ["--dataset", "ramps", "--format", OF_FRAMEWORK[framework]]
            command += ["--shards", "4", "--jobs", "1"]
            environ = dict(os.environ, PYTHONPATH=str(SCRIPTS))
            subprocess.run(list(map(str, command)), env=environ, check=True, timeout=300)
        return out

    return made


def problems(framework: str, environments: Path, folder: Path, scratch: Path, scripts: Path):
    """What is wrong with a reader's batches."""
    changes = {"batch_size": BATCH_SIZE, "ranks": 1, "local_ranks": 1, "seed": 12345}
    changes["dimensions"] = {"image_size": SIZE}
    run = a_run(framework, environments, folder, scratch, **changes)
    spec, out = scratch / "run.json", scratch / "batches.npz"
    run.save(spec)
    path = os.pathsep.join(map(str, (scripts, ROOT / "benchmarks")))
    environ = dict(os.environ, PYTHONPATH=path, CUDA_VISIBLE_DEVICES="")
    environ |= frameworks.load(framework).environment(run)
    command = [run.interpreter, "-c", READ, spec, BATCHES, out]
    done = subprocess.run(list(map(str, command)), env=environ, cwd=scratch, timeout=600)
    assert done.returncode == 0
    with np.load(out) as arrays:
        batches = [arrays[name] for name in arrays.files]
    images, labels = np.concatenate(batches[::2]), np.concatenate(batches[1::2]).astype(int)
    if framework not in CHANNELS_LAST:
        images = images.transpose(0, 2, 3, 1)
    rows = plain.measured(images)
    by_epochs = framework in EXACT  # OneFlow's window of records reaches into the next epoch
    return plain.ramps(rows, labels, BATCH_SIZE, exact=False, by_epochs=by_epochs)


@pytest.mark.parametrize(
    "framework",
    [
        name if name in ("mxnet", "tensorflow") else pytest.param(name, marks=pytest.mark.full)
        for name in OF_FRAMEWORK
    ],
)
def test_a_frameworks_own_reader_reads_as_it_says(framework, environments, ramps, tmp_path):
    found = problems(framework, environments, ramps(framework), tmp_path, SCRIPTS)
    assert found == []


@pytest.mark.parametrize(
    ("framework", "way"),
    [
        each if each == ("mxnet", "no flips") else pytest.param(*each, marks=pytest.mark.full)
        for each in WRONG
    ],
)
def test_a_reader_that_reads_otherwise_is_found(framework, way, environments, ramps, tmp_path):
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    module, (honest, wrong) = f"dlperf/loaders/readers/{framework}.py", WRONG[framework, way]
    text = (scripts / module).read_text()
    assert text.count(honest) == 1
    (scripts / module).write_text(text.replace(honest, wrong))
    found = problems(framework, environments, ramps(framework), tmp_path, scripts)
    print(json.dumps(found))
    assert found
