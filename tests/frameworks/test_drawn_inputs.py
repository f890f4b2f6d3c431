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
#: The same of DALI's pipeline, and of what takes its batches in a framework.
WRONG_DALI = {
    ("dali", "no flips"): ("mirror=fn.random.coin_flip()", "mirror=0"),
    ("dali", "flips alone"): ("mirror=fn.random.coin_flip()", "mirror=1"),
    ("dali", "large crops alone"): ("random_area=list(CROP_AREA)", "random_area=[0.4, 1.0]"),
    ("dali", "squares alone"): (
        "random_aspect_ratio=list(CROP_ASPECT)",
        "random_aspect_ratio=[1.0, 1.0]",
    ),
    ("dali", "another mean"): ("mean=MEAN.tolist()", "mean=(1.15 * MEAN).tolist()"),
    ("dali", "another deviation"): ("std=(1 / SCALE).tolist()", "std=(0.9 / SCALE).tolist()"),
    ("dali", "labels by one"): ("dtype=types.INT64)", "dtype=types.INT64) + 1"),
    ("dali", "no shuffle"): ("shuffle_after_epoch=True", "shuffle_after_epoch=False"),
    ("paddlepaddle_dali", "the first batch again"): (
        "        tensors = [each.as_tensor() for each in pipeline.run()]",
        "        tensors = locals().get('tensors') or [x.as_tensor() for x in pipeline.run()]",
    ),
    ("paddlepaddle_dali", "rows for columns"): (
        "dali.open_pipeline(run, shards, layout, epoch)",
        "dali.open_pipeline(run, shards, layout[0] + 'CWH', epoch)",
    ),
    ("pytorch_dali", "rows for columns"): ("permute(0, 3, 1, 2)", "permute(0, 3, 2, 1)"),
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


def problems(
    framework: str,
    environments: Path,
    folder: Path,
    scratch: Path,
    scripts: Path = SCRIPTS,
    dali: Path | None = None,
) -> list[str]:
    """What is wrong with a reader's batches. dali: a folder that has DALI, which then reads."""
    changes = {"batch_size": BATCH_SIZE, "ranks": 1, "local_ranks": 1, "seed": 12345}
    changes["dimensions"] = {"image_size": SIZE}
    if dali:
        changes["data"] = "sample_dali"
    run = a_run(framework, environments, folder, scratch, **changes)
    spec, out = scratch / "run.json", scratch / "batches.npz"
    run.save(spec)
    packages = [scripts, ROOT / "benchmarks", *([dali] if dali else [])]
    path = os.pathsep.join(map(str, packages))
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
    found = problems(framework, environments, ramps(framework), tmp_path)
    assert found == []


@pytest.mark.parametrize(
    ("framework", "way"),
    [
        each if each == ("mxnet", "no flips") else pytest.param(*each, marks=pytest.mark.full)
        for each in WRONG
    ],
)
def test_a_reader_that_reads_otherwise_is_found(framework, way, environments, ramps, tmp_path):
    scripts = with_wrong(framework, *WRONG[framework, way], tmp_path)
    found = problems(framework, environments, ramps(framework), tmp_path, scripts)
    print(json.dumps(found))
    assert found


def with_wrong(module: str, honest: str, wrong: str, scratch: Path) -> Path:
    """A copy of this package in which a reader's module does something else."""
    scripts = scratch / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    path = scripts / f"dlperf/loaders/readers/{module}.py"
    text = path.read_text()
    assert text.count(honest) == 1
    path.write_text(text.replace(honest, wrong))
    return scripts


FRAMEWORKS = ["paddlepaddle", pytest.param("pytorch", marks=pytest.mark.full)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dali_reads_as_it_says(framework, environments, ramps, dali, tmp_path):
    found = problems(framework, environments, ramps(framework), tmp_path, dali=dali)
    assert found == []


@pytest.mark.parametrize(
    ("module", "way"),
    [
        each if each == ("dali", "no flips") else pytest.param(*each, marks=pytest.mark.full)
        for each in WRONG_DALI
    ],
)
def test_dali_that_reads_otherwise_is_found(module, way, environments, ramps, dali, tmp_path):
    framework = "pytorch" if module == "pytorch_dali" else "paddlepaddle"
    scripts = with_wrong(module, *WRONG_DALI[module, way], tmp_path)
    found = problems(framework, environments, ramps(framework), tmp_path, scripts, dali)
    print(json.dumps(found))
    assert found
