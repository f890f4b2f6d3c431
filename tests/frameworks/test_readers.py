"""Each framework's own reader gives what its implementation trains on, each image to one rank."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from PIL import Image

from dlperf import frameworks
from dlperf.contract.layout import Layout
from dlperf.contract.run import Run
from dlperf.loaders import libraries, readers
from dlperf.loaders.formats import OF_FRAMEWORK

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "scripts/dlperf/measure/record.schema.json").read_text())
IMAGES, SHARDS, BATCH_SIZE, SIZE = 32, 4, 4, 32
LABELS = {"pytorch": "int64", "paddlepaddle": "int64", "oneflow": "int64", "mxnet": "float32"}
CHANNELS_LAST = ("tensorflow", "tensorflow1", "jax")
# OneFlow's window of shuffled records reaches into the next epoch
EXACT = [name for name in OF_FRAMEWORK if name != "oneflow"]

#: Opens the reader of each rank in turn, and of the first again; reads so many batches.
READ = """
import dataclasses, json, os, sys
from dlperf import frameworks
from read import opened
from dlperf.contract.run import Run

run, found = Run.load(sys.argv[1]), []
ranks, count = json.loads(sys.argv[2])
for rank in ranks:
    with opened(dataclasses.replace(run, rank=rank)) as (_, reader):
        reader.fill()
        batches = [reader.arrays(reader.next()) for _ in range(count)]
        assert reader.waited_seconds >= 0
    images, labels = batches[0]
    channel = -1 if images.shape[-1] == 3 else 1
    axes = tuple(axis for axis in (1, 2, 3) if axis != channel % 4)
    found.append({
        "shape": images.shape,
        "types": [str(images.dtype), str(labels.dtype)],
        "labels": [label for _, labels in batches for label in labels.ravel().tolist()],
        "colours": [each for images, _ in batches for each in images.mean(axes).tolist()],
        "data_loader": reader.parity["data_loader"],
        "spread": float(max(images.std(axes).max() for images, _ in batches)),
    })
print(json.dumps(found))
sys.stdout.flush()
os._exit(0)
"""


def colour(label: int) -> tuple[int, int, int]:
    return 8 * label, 255 - 4 * label, 40 + 3 * label


@pytest.fixture(scope="session")
def shards(environments, tmp_path_factory):
    """A function: the folder with a framework's shards of images of one colour and label each."""
    source = tmp_path_factory.mktemp("colours")
    for label in range(IMAGES):
        folder = source / f"n{label:08}"
        folder.mkdir()
        picture = Image.new("RGB", (60 + label, 80 - label), colour(label))
        picture.save(folder / f"{folder.name}_1.JPEG", quality=95)

    def made(framework: str) -> Path:
        out = source.with_name(f"shards-{OF_FRAMEWORK[framework]}")
        if not (out / "manifest.json").exists():
            name = "mindspore" if framework == "mindspore" else ""
            python = environments / "mindspore.cpu/bin/python" if name else sys.executable
            command = [python, "-m", "dlperf.prepare.images", "--source", source, "--out", out]
            command += ["--dataset", "colours", "--format", OF_FRAMEWORK[framework]]
            command += ["--shards", str(SHARDS), "--jobs", "1"]
            environ = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"))
            subprocess.run(list(map(str, command)), env=environ, check=True, timeout=120)
        return out

    return made


def a_run(framework: str, environments: Path, folder: Path, scratch: Path, **changes) -> Run:
    values = dict(
        workload="resnet50",
        framework=framework,
        scenario="train",
        precision="fp32",
        compiler=frameworks.of(framework).default_compiler["cpu"],
        batch_size=BATCH_SIZE,
        data="sample_native",
        layout=Layout(),
        dimensions={"image_size": SIZE},
        device="cpu",
        warmup_steps=1,
        measured_steps=3,
        cores_per_device=1,
        seed=1,
        data_dir=str(folder),
        rank=0,
        local_rank=0,
        ranks=2,
        local_ranks=2,
        cores=[0],
        interpreter=str(environments / f"{framework}.cpu/bin/python"),
        address="127.0.0.1",
        port=29517,
        peers=["127.0.0.1:29517", "127.0.0.1:29518"],
        interface="lo",
        meeting="",
        gpus=[],
        capability="",
        result=str(scratch / "result.json"),
    )
    return Run(**{**values, **changes})


def start(run: Run, scratch: Path, ranks: list[int], batches: int, *more) -> subprocess.Popen:
    """`more`: folders of packages beside those of the environment."""
    spec = scratch / f"run{run.rank}.json"
    run.save(spec)
    path = os.pathsep.join(map(str, (ROOT / "scripts", ROOT / "benchmarks", *more)))
    environ = dict(os.environ, PYTHONPATH=path, CUDA_VISIBLE_DEVICES="")
    environ |= frameworks.load(run.framework).environment(run)
    command = [run.interpreter, "-c", READ, str(spec), json.dumps([ranks, batches])]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, cwd=scratch)


def answer(process: subprocess.Popen) -> list[dict]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


def check_batches(framework: str, found: dict) -> None:
    assert found["data_loader"]
    last = framework in CHANNELS_LAST
    # PyTorch's channels_last is NHWC in memory only
    expected = [BATCH_SIZE, SIZE, SIZE, 3] if last else [BATCH_SIZE, 3, SIZE, SIZE]
    assert found["shape"] == expected
    assert found["types"] == ["float32", LABELS.get(framework, "int32")]
    # an image has its label's colour in every pixel, red first, normalised: JPEG is 3 in 255 off
    wanted = np.array([colour(int(label)) for label in found["labels"]]) / 255
    wanted = (wanted - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(found["colours"], wanted, atol=0.06)
    assert found["spread"] < 0.06


@pytest.mark.parametrize(
    "framework",
    [
        name if name in ("tensorflow", "mxnet") else pytest.param(name, marks=pytest.mark.full)
        for name in EXACT
    ],
)
def test_each_image_comes_once_an_epoch_on_one_rank(framework, environments, shards, tmp_path):
    check_epochs(a_run(framework, environments, shards(framework), tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("framework", "data"),
    [
        ("paddlepaddle", "sample_dali"),
        pytest.param("pytorch", "sample_dali", marks=pytest.mark.full),
        ("pytorch", "sample_native"),  # PyTorch takes DALI wherever its environment has it
    ],
)
def test_dali_too_gives_each_image_once_an_epoch(
    framework, data, environments, shards, dali, tmp_path
):
    run = a_run(framework, environments, shards(framework), tmp_path, data=data)
    check_epochs(run, tmp_path, dali)


def test_paddlepaddle_reads_by_its_own_loader_beside_dali(environments, shards, dali, tmp_path):
    run = a_run("paddlepaddle", environments, shards("paddlepaddle"), tmp_path)
    (found,) = answer(start(run, tmp_path, [0], 1, dali))
    assert found["data_loader"].startswith("paddle.io.DataLoader")


@pytest.mark.parametrize("framework", ["paddlepaddle", "tensorflow"])
def test_dali_is_asked_for_where_it_is_not(framework, environments, shards, tmp_path):
    """Not in the environment, or not for the framework: no other reader takes its place."""
    run = a_run(framework, environments, shards(framework), tmp_path, data="sample_dali")
    reason = "needs NVIDIA DALI, which .* does not have; .*`environments: interpreters"
    if framework not in libraries.DALI:
        reason = "NVIDIA DALI reads here for pytorch and paddlepaddle, not for tensorflow"
    with pytest.raises(readers.DataError, match=reason):
        readers.open_images(run, "NHWC")


def test_dali_that_cannot_be_imported_is_not_taken_for_none(tmp_path, monkeypatch):
    package = tmp_path / "nvidia/dali"
    package.mkdir(parents=True)
    assert not readers.has_dali()
    (package / "__init__.py").write_text("import what_is_not_installed")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="what_is_not_installed"):
        readers.has_dali()


def check_epochs(run: Run, scratch: Path, *more: Path) -> None:
    """Two ranks get each image once between them, in both epochs, shuffled, the same ones again."""
    share = IMAGES // 2
    process = start(run, scratch, [0, 1, 0], 2 * share // BATCH_SIZE, *more)
    first, second, again = answer(process)
    for found in (first, second):
        check_batches(run.framework, found)
        assert found["data_loader"].startswith("NVIDIA DALI 2.") == bool(more)
    for epoch in (slice(0, share), slice(share, None)):
        both = first["labels"][epoch] + second["labels"][epoch]
        assert sorted(both) == list(range(IMAGES))
    assert first["labels"] == again["labels"]
    assert first["labels"][:share] != sorted(first["labels"][:share])
    assert first["labels"][:share] != first["labels"][share:]


def test_oneflow_deals_parts_to_its_processes(environments, shards, tmp_path):
    folder = shards("oneflow")
    processes = []
    for rank in (0, 1):
        changes = {"rank": rank, "local_rank": rank}
        run = a_run("oneflow", environments, folder, tmp_path, **changes)
        processes.append(start(run, tmp_path, [rank, rank], 6 * IMAGES // BATCH_SIZE // 2))
    (first, again), (second, _) = map(answer, processes)
    for found in (first, second):
        check_batches("oneflow", found)
    own = [set(found["labels"]) for found in (first, second)]
    assert not own[0] & own[1]
    assert own[0] | own[1] == set(range(IMAGES))
    assert first["labels"] == again["labels"]


@pytest.mark.parametrize("framework", ["pytorch", "mxnet"])
def test_other_shards_are_refused_with_the_mend(framework, environments, shards, tmp_path):
    other = shards("tensorflow")
    run = a_run(framework, environments, other, tmp_path)
    with pytest.raises(readers.DataError, match=f"--format {OF_FRAMEWORK[framework]}"):
        readers.Shards(run)


@pytest.mark.parametrize("framework", ["tensorflow1", "mxnet"])
def test_it_trains_on_its_own_reader(framework, environments, shards, tmp_path):
    environment = f"results/environments/{framework}.cpu/env.json"
    command = [sys.executable, "-m", "dlperf.measure", "--environment", environment]
    record = trained(framework, "sample_native", shards(framework), tmp_path, command)
    assert record["parity"]["data_loader"].endswith("1 thread")


@pytest.mark.full
def test_paddlepaddle_trains_on_what_dali_reads(environments, shards, dali, tmp_path):
    """Under an interpreter that finds DALI too, as users name theirs."""
    command = [environments / "paddlepaddle.cpu/bin/python", "-m", "dlperf.measure"]
    folder = shards("paddlepaddle")
    record = trained("paddlepaddle", "sample_dali", folder, tmp_path, command, dali)
    assert record["parity"]["data_loader"].startswith("NVIDIA DALI 2.")


def trained(framework: str, data: str, folder: Path, scratch: Path, command: list, *more) -> dict:
    """The record of a few steps on two ranks. `more`: folders of packages beside the others."""
    case = {
        "identity": {
            "round": "test",
            "workload": "resnet50",
            "framework": framework,
            "scenario": "train",
            "precision": "fp32",
            "compiler": frameworks.of(framework).default_compiler["cpu"],
            "nodes": 1,
            "devices_per_node": 2,
            "layout": dataclasses.asdict(Layout()),
            "batch_size": BATCH_SIZE,
            "data": data,
            "repetition": 1,
            "image_size": 64,
        },
        "settings": {
            "device": "cpu",
            "warmup_steps": 1,
            "measured_steps": 3,
            "cores_per_device": 1,
            "timeout_seconds": 240,
            "seed": 1,
            "data_dir": str(folder),
        },
    }
    out = scratch / "rep1.json"
    command = [*map(str, command), "--case", json.dumps(case), "--out", str(out)]
    path = os.pathsep.join(map(str, (ROOT / "scripts", *more)))
    environ = dict(os.environ, PYTHONPATH=path)
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads(out.read_text())
    assert record["status"] == "ok", record["reason"] + done.stderr[-3000:]
    jsonschema.validate(record, SCHEMA)
    assert record["samples"] == 3 * BATCH_SIZE * 2
    assert record["steps"]["loader_seconds"] > 0
    assert all(4 < loss < 10 for loss in record["steps"]["loss"])
    return record
