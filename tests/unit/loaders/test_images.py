"""The sample set is the same wherever it is made, and its batches the same in every framework."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dlperf.contract.run import Input
from dlperf.loaders import images as loader
from dlperf.loaders import prefetch as ahead
from dlperf.loaders.images import DataError, crop_box, decode, digest, open_batches, verify
from dlperf.prepare import manifest as writing
from dlperf.prepare import sample
from dlperf.workloads import inputs as loaders

BATCHES = {"batches": 3}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "sample"
    sample.make(folder, images_per_class=3)
    return folder


@pytest.fixture
def own_data_dir(tmp_path) -> Path:
    """A set that the test may break."""
    sample.make(tmp_path / "sample", images_per_class=1)
    return tmp_path / "sample"


def opened(data_dir, rank=0, ranks=1, layout="NHWC", prefetch=None, **changes):
    asked = {"batch_size": 4, "data": "sample", "seed": 1, "data_dir": str(data_dir), **BATCHES}
    asked["dimensions"] = {"image_size": changes.pop("image_size", 32)}
    asked.update(changes, part=rank, parts=ranks)
    return open_batches(Input(workload="resnet50", **asked), layout, prefetch)


def read(count, data_dir, *arguments, **changes):
    with opened(data_dir, *arguments, **changes) as batches:
        return [batches.next() for _ in range(count)]


# The set


def test_it_is_made_the_same_twice(data_dir, tmp_path):
    sample.make(tmp_path, images_per_class=3)
    names = [path.relative_to(data_dir) for path in data_dir.rglob("*") if path.is_file()]
    assert len(names) == 61
    for name in names:
        assert (tmp_path / name).read_bytes() == (data_dir / name).read_bytes()


def test_another_seed_makes_other_images(data_dir, tmp_path):
    other = sample.make(tmp_path, images_per_class=3, seed=2)
    assert other["sha256"] != json.loads((data_dir / "manifest.json").read_text())["sha256"]


def test_it_looks_like_imagenet(data_dir):
    manifest = verify(str(data_dir / "manifest.json"))
    labels = {file["label"] for file in manifest["files"]}
    assert manifest["images"] == 60 and manifest["classes"] == len(labels) == 20
    assert min(labels) == 0 and max(labels) == 999
    assert all(300 <= max(file["width"], file["height"]) <= 500 for file in manifest["files"])
    assert len({(file["width"], file["height"]) for file in manifest["files"]}) > 50
    for file in manifest["files"]:
        with Image.open(data_dir / file["path"]) as image:
            assert image.format == "JPEG" and image.size == (file["width"], file["height"])


def test_every_photograph_names_its_licence(data_dir):
    sources = json.loads((data_dir / "manifest.json").read_text())["sources"]
    assert len(sources) == 9
    for source in sources:
        assert source["licence"] and source["credit"] and source["version"] and source["file"]


def test_a_killed_make_leaves_no_manifest(own_data_dir, monkeypatch):
    monkeypatch.setattr(writing, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        sample.make(own_data_dir, images_per_class=1)
    with pytest.raises(DataError, match="manifest.json: no such file; make the data again"):
        opened(own_data_dir)


def test_files_that_the_manifest_does_not_list_are_left_alone(own_data_dir):
    (own_data_dir / "notes.txt").write_text("mine")
    sample.make(own_data_dir, images_per_class=1)
    assert (own_data_dir / "notes.txt").read_text() == "mine"


# The same batches for every framework


def interpreters() -> dict[str, str]:
    """The framework interpreters that are built on this machine."""
    found = {}
    for path in sorted(ROOT.glob("results/environments/*.cpu/env.json")):
        environment = json.loads(path.read_text())
        if environment["status"] == "ok":
            found[environment["framework"]] = str(ROOT / environment["interpreter"])
    return found


@pytest.mark.parametrize("data", ["sample", "synthetic"])
def test_every_framework_reads_the_same_bytes(data, data_dir, tmp_path):
    frameworks = interpreters()
    if not frameworks:
        pytest.skip("no framework environment is built in results/environments")
    identity = {"workload": "resnet50", "batch_size": 8, "image_size": 48, "data": data}
    settings = {"seed": 7, "data_dir": str(data_dir)}
    case = tmp_path / "case.json"
    case.write_text(json.dumps({"identity": identity, "settings": settings}))

    def digest_under(interpreter):
        command = [
            interpreter,
            "-m",
            "dlperf.workloads.inputs",
            "--case",
            str(case),
            "--count",
            "9",
        ]
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
        done = subprocess.run(command, env=environ, text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["sha256"]

    expected = digest_under(sys.executable)
    found = {name: digest_under(interpreter) for name, interpreter in frameworks.items()}
    assert found == dict.fromkeys(frameworks, expected)


@pytest.mark.parametrize("data", ["sample", "synthetic"])
def test_both_layouts_hold_the_same_values(data, data_dir):
    last = read(2, data_dir, data=data)
    first = read(2, data_dir, layout="NCHW", data=data)
    for (nhwc, labels), (nchw, same_labels) in zip(last, first, strict=True):
        assert nhwc.shape == (4, 32, 32, 3) and nchw.shape == (4, 3, 32, 32)
        assert nhwc.flags.c_contiguous and nchw.flags.c_contiguous
        assert nhwc.dtype == nchw.dtype == np.float32 and labels.dtype == np.int32
        assert (nhwc.transpose(0, 3, 1, 2) == nchw).all() and (labels == same_labels).all()
    assert digest(last, "NHWC") == digest(first, "NCHW")


def test_the_seed_decides(data_dir):
    assert digest(read(3, data_dir), "NHWC") == digest(read(3, data_dir), "NHWC")
    assert digest(read(3, data_dir), "NHWC") != digest(read(3, data_dir, seed=2), "NHWC")


def test_two_ranks_share_the_batch_of_one(data_dir):
    whole = read(20, data_dir, batch_size=8)
    halves = [read(20, data_dir, rank, 2, batch_size=4) for rank in (0, 1)]
    for (images, labels), first, second in zip(whole, *halves, strict=True):
        assert (images == np.concatenate([first[0], second[0]])).all()
        assert (labels == np.concatenate([first[1], second[1]])).all()


def test_shards_do_not_overlap_and_an_epoch_has_every_image_once(data_dir):
    seen = []
    for rank in range(3):
        with opened(data_dir, rank, 3, batch_size=5) as batches:
            indices = batches._indices()
            seen += [index for _ in range(4) for index in next(indices)[1]]
            assert next(indices)[0] == 1  # the fifth batch belongs to the next epoch
    assert sorted(seen) == list(range(60))


def test_an_image_looks_different_in_the_next_epoch(data_dir):
    epochs = read(2, data_dir, batch_size=60)
    assert sorted(epochs[0][1]) == sorted(epochs[1][1])
    means = [set(images.mean(axis=(1, 2, 3))) for images, _ in epochs]
    assert not means[0] & means[1]


# What is done to an image


@given(width=st.integers(1, 3000), height=st.integers(1, 3000), seed=st.integers(0, 2**32 - 1))
def test_a_crop_lies_within_its_image(width, height, seed):
    left, top, crop_width, crop_height = crop_box(width, height, np.random.RandomState(seed))
    assert 0 <= left and 0 <= top and crop_width >= 1 and crop_height >= 1
    assert left + crop_width <= width and top + crop_height <= height


def test_crops_have_the_areas_and_aspects_that_are_asked_for():
    random = np.random.RandomState(0)
    boxes = np.array([crop_box(500, 375, random) for _ in range(4000)], float)
    area = boxes[:, 2] * boxes[:, 3] / (500 * 375)
    aspect = boxes[:, 2] / boxes[:, 3]
    assert 0.078 < area.min() < 0.1 and 0.9 < area.max() <= 1
    assert 0.74 < aspect.min() < 0.76 and 1.32 < aspect.max() < 1.36


def test_half_of_the_images_are_flipped(tmp_path):
    # Dark on the left, light on the right, and no crop changes that.
    ramp = np.repeat(np.linspace(0, 255, 256).astype(np.uint8)[None, :, None], 256, axis=0)
    path = str(tmp_path / "ramp.png")
    Image.fromarray(np.repeat(ramp, 3, axis=2)).save(path)
    random = np.random.RandomState(0)
    pixels = [decode(Image, path, 16, random).astype(int) for _ in range(200)]
    flipped = sum(image[:, 0].mean() > image[:, -1].mean() for image in pixels)
    assert 75 < flipped < 125


def test_values_are_imagenet_normalised(data_dir):
    with opened(data_dir, batch_size=60) as batches:
        _, order = next(batches._indices())
        images, labels = batches.next()
        files = batches._files
    assert [files[index]["label"] for index in order] == list(labels)
    random = np.random.RandomState([1, loader.CROP, 0, order[0]])
    pixels = decode(Image, str(data_dir / files[order[0]]["path"]), 32, random)
    expected = (pixels / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(images[0], expected, atol=1e-5)
    assert abs(images.mean()) < 1 and 0.7 < images.std() < 1.6


def test_decoding_at_a_smaller_scale_shows_the_same_picture(data_dir, tmp_path):
    differences = []
    for path in sorted(data_dir.glob("*/*_0.JPEG")):
        with Image.open(path) as image:
            image.save(tmp_path / "full.png")  # PNG knows no smaller scales
        for seed in range(3):
            random = [np.random.RandomState(seed) for _ in range(2)]
            fast = decode(Image, str(path), 32, random[0]).astype(int)
            full = decode(Image, str(tmp_path / "full.png"), 32, random[1]).astype(int)
            differences.append(abs(fast - full).mean())
    assert np.mean(differences) < 2 and max(differences) < 6  # of 255


def test_grey_and_thin_images_are_read_too(tmp_path):
    for mode, size in (("L", (400, 300)), ("L", (9, 700)), ("CMYK", (300, 200)), ("RGB", (1, 1))):
        path = str(tmp_path / "image.jpg")
        Image.new(mode, size).save(path)
        assert decode(Image, path, 32, np.random.RandomState(0)).shape == (32, 32, 3)


def test_synthetic_batches_are_standard_normal_and_a_rank_has_its_own(data_dir):
    with opened("", data="synthetic", batch_size=64) as batches:
        batches.fill()
        images, labels = batches.next()
        others = batches.next()
        assert batches.pooled and batches.waited_seconds == 0
    assert not (others[0] == images).all(axis=(1, 2, 3)).any() and (others[1] != labels).any()
    assert len({image.tobytes() for image in images}) == 64
    assert abs(images.mean()) < 0.02 and abs(images.std() - 1) < 0.02
    assert labels.min() >= 0 and labels.max() <= 999 and len(set(labels)) > 50
    other = read(1, "", 1, 2, data="synthetic", batch_size=64)
    assert not (other[0][0] == images).any()


# Reading ahead


def test_a_full_queue_is_read_without_waiting_and_without_decoding(data_dir):
    with opened(data_dir) as batches:
        batches.fill()
        made = batches._made
        for _ in range(3):
            batches.next()
        time.sleep(0.05)
        assert batches._made == made == 3 + ahead.LOOK_AHEAD  # nothing more was decoded
        assert batches.waited_seconds == 0
        assert batches.first_batch_sha256 == digest(read(1, data_dir), "NHWC")


def test_batches_beyond_the_run_are_made_when_asked_for(data_dir):
    assert len(read(40, data_dir)) == 40


def test_waiting_is_counted(data_dir, monkeypatch):
    slow = lambda *arguments: time.sleep(0.02) or decode(*arguments)  # noqa: E731
    monkeypatch.setattr(loader, "decode", slow)
    with opened(data_dir, prefetch=1) as batches:
        batches.next()
        assert batches.waited_seconds > 0.04


def test_the_queue_stays_within_its_memory(data_dir, monkeypatch):
    monkeypatch.setattr(ahead, "PREFETCH_BYTES", 2 * 4 * 32 * 32 * 3 * 4 + 1)
    with opened(data_dir) as batches:
        batches.fill()
        time.sleep(0.05)
        assert len(batches._queue) == 2
        assert len([batches.next() for _ in range(5)]) == 5


def test_closing_ends_the_thread(data_dir):
    before = threading.active_count()
    batches = opened(data_dir, prefetch=1)
    assert threading.active_count() == before + 1
    batches.close()
    batches.close()
    assert threading.active_count() == before
    with pytest.raises(DataError, match="closed"):
        batches.next()


# Mistakes and broken files


def test_a_changed_file_is_named(own_data_dir):
    path = own_data_dir / "n00000000/n00000000_0.JPEG"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"n00000000_0.JPEG: sha256 .* differs .* make the data"):
        opened(own_data_dir)
    path.unlink()
    with pytest.raises(DataError, match="n00000000_0.JPEG: missing"):
        opened(own_data_dir)


@pytest.mark.parametrize("broken", [b"", b"no picture", None], ids=["empty", "text", "truncated"])
def test_a_file_that_breaks_during_the_run_is_named(own_data_dir, broken):
    paths = sorted(own_data_dir.glob("*/*.JPEG"))
    with opened(own_data_dir, prefetch=1, batch_size=20) as batches:
        batches.fill()
        for path in paths:
            path.write_bytes(path.read_bytes()[:2000] if broken is None else broken)
        batches.next()  # this one was ready
        with pytest.raises(DataError, match=r"n\d{8}_0.JPEG: not a whole JPEG image"):
            for _ in range(3):
                batches.next()
        with pytest.raises(DataError, match="not a whole JPEG image"):
            batches.fill()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "x", "sha256": "", "files": [], "classes": 1}']
)
def test_a_manifest_that_is_none_is_named(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="manifest.json: .* make the data again"):
        opened(tmp_path)


def test_a_changed_manifest_is_noticed(own_data_dir):
    path = own_data_dir / "manifest.json"
    path.write_text(path.read_text().replace('"label": 999', '"label": 998'))
    with pytest.raises(DataError, match="its list of files differs from its sha256"):
        opened(own_data_dir)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"data_dir": "nowhere"}, r"nowhere/manifest.json: no such file; .*snakemake"),
        ({"data_dir": ""}, "'data_dir' is empty"),
        ({"layout": "CHWN"}, "'CHWN' is not known; it is one of NHWC, NCHW"),
        ({"rank": 2, "ranks": 2}, "part 2 is not one of the parts 0 to 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"seed": -1}, "'seed': -1 is not within"),
        ({"batch_size": 31, "ranks": 2}, r"60 images, fewer than the 62 .* --images-per-class 4"),
    ],
)
def test_mistakes_are_told(data_dir, changes, message):
    with pytest.raises(DataError, match=message):
        opened(**{"data_dir": data_dir, **changes})


def test_a_kind_of_data_that_a_workload_has_not_is_told():
    with pytest.raises(DataError, match="'imagnet' is not known; resnet50 has: synthetic, "):
        loaders.loader("resnet50", "imagnet")


def test_a_missing_pillow_is_told(data_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="cannot import Pillow.*add pillow"):
        opened(data_dir)


def test_the_programs_end_with_one_line(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    (tmp_path / "file").touch()
    for arguments in (
        ["dlperf.prepare.sample", "--out", str(tmp_path / "file")],
        ["dlperf.prepare.sample", "--out", str(tmp_path / "a"), "--images-per-class", "0"],
        ["dlperf.workloads.inputs", "--case", str(tmp_path / "none.json")],
        ["dlperf.workloads.inputs", "--case", str(tmp_path / "file")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *arguments], env=environ, text=True, capture_output=True
        )
        assert done.returncode == 1
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
