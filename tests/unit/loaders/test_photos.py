"""Photographs to test with: the middle of each, all of them once, the same for all frameworks."""

import io
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from conftest import SCRIPTS
from PIL import Image
from scipy.io import savemat

from dlperf.contract.run import Input
from dlperf.loaders import DataError, photos
from dlperf.loaders import images as batches
from dlperf.prepare import sample
from dlperf.prepare.images import archive
from dlperf.workloads.resnet50.facts import DATA


def folders_of(source, out):
    command = [sys.executable, "-m", "dlperf.prepare.images", "--source", source, "--out", out]
    command += ["--format=folders", "--shards=2"]
    subprocess.run(command, check=True, capture_output=True, env={"PYTHONPATH": str(SCRIPTS)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """sample/ to train on, and beside it sample-test-folders/, made by the workflow's commands."""
    root = tmp_path_factory.mktemp("data")
    sample.make(root / "sample", 2, 1)
    sample.make(root / "sample-test", 5, 2)
    folders_of(root / "sample-test", root / "sample-test-folders")
    return root / "sample"


def asked(folder, **more):
    given = dict(workload="resnet50", data="sample", data_dir=str(folder), batch_size=32, seed=1)
    given.update(dimensions={"image_size": 56}, held_out=True, kind=DATA["sample"])
    return Input(**{**given, **more})


def test_all_are_tested_once_the_short_last_batch_too_and_parts_share_them(folder):
    whole = list(photos.Photos(asked(folder), "NHWC"))
    assert [own for _, own in whole] == [32, 32, 32, 4]
    assert {images.shape for (images, _), _ in whole} == {(32, 56, 56, 3)}
    labels = np.concatenate([labels[:own] for (_, labels), own in whole])
    assert (np.bincount(labels)[np.unique(labels)] == 5).all() and len(np.unique(labels)) == 20
    parts = [list(photos.Photos(asked(folder, parts=2, part=part), "NCHW")) for part in (0, 1)]
    halves = np.concatenate(
        [images[:own] for part in parts for (images, _), own in part]
    ).transpose(0, 2, 3, 1)
    assert np.array_equal(halves, np.concatenate([images[:own] for (images, _), own in whole]))


def test_the_middle_224_of_256_are_taken(tmp_path):
    pixels = np.zeros((256, 512, 3), np.uint8)
    pixels[16:240, 144:368] = 255  # the middle 224 x 224
    Image.fromarray(pixels).save(tmp_path / "a.png")
    whole = photos.central(Image, str(tmp_path / "a.png"), 224)
    assert (whole == 255).all()
    small = photos.central(Image, str(tmp_path / "a.png"), 64)
    assert small.shape == (64, 64, 3) and small[1:-1, 1:-1].min() == 255


def test_nothing_is_read_to_train_on_before_it_begins_and_the_noise_is_not_told(folder):
    with batches.open_batches(asked(folder, batch_size=4, warmup=1)) as source:
        noise, _ = source.next()
        assert source.first_batch_sha256 is None and abs(noise.std() - 1) < 0.1
        source.begin()
        first = source.next()
    with batches.open_batches(asked(folder, batch_size=4)) as source:
        again = source.next()
    assert all(map(np.array_equal, first, again))


def test_another_number_of_images_than_the_tests_is_an_error(folder, tmp_path):
    folders_of(folder, tmp_path / "sample-test-folders")
    with pytest.raises(DataError, match="40 images; data sample is tested with 100"):
        photos.Photos(asked(tmp_path / "sample"), "NHWC")


def development_kit(path, numbers):
    """ImageNet's, of three classes and their parent."""
    synsets = np.array(
        [(3, "n03", 0), (1, "n09", 0), (2, "n01", 0), (4, "n00", 3)],
        dtype=[("ILSVRC2012_ID", int), ("WNID", object), ("num_children", int)],
    )
    meta = io.BytesIO()
    savemat(meta, {"synsets": synsets})
    truth = "".join(f"{number}\n" for number in numbers).encode()
    with tarfile.open(path, "w:gz") as kit:
        for name, content in (
            ("meta.mat", meta.getvalue()),
            ("ILSVRC2012_validation_ground_truth.txt", truth),
        ):
            member = tarfile.TarInfo(f"ILSVRC2012_devkit_t12/data/{name}")
            member.size = len(content)
            kit.addfile(member, io.BytesIO(content))


def test_imagenets_development_kit_says_the_classes_of_its_validation_images(tmp_path):
    kit, tar = tmp_path / "devkit.tar.gz", tmp_path / "val.tar"
    development_kit(kit, [2, 3, 1, 2])
    with tarfile.open(tar, "w") as images:
        for number in (3, 1, 2, 4):
            member = tarfile.TarInfo(f"ILSVRC2012_val_{number:08d}.JPEG")
            images.addfile(member)
    index = archive.index(tar, kit)
    assert index.classes == ["n01", "n03", "n09"]  # numbered as those to train on: by name
    assert [index[place].label for place in range(4)] == [2, 0, 1, 0]


def test_another_file_than_the_development_kit_is_one_message(tmp_path):
    (tmp_path / "kit.tar.gz").write_bytes(b"none")
    with tarfile.open(tmp_path / "val.tar", "w"):
        pass
    with pytest.raises(DataError, match=r"kit.tar.gz: not ImageNet's development kit"):
        archive.index(tmp_path / "val.tar", tmp_path / "kit.tar.gz")
