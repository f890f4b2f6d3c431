"""Batches of faces: the same for every framework, with labels over all identities."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dlperf.contract.dimension import Dimensions
from dlperf.contract.run import Input
from dlperf.loaders import DataError
from dlperf.loaders.record_files import Records
from dlperf.prepare import faces_sample
from dlperf.prepare.formats import recordio
from dlperf.workloads.insightface import facts, sampling
from dlperf.workloads.insightface import input as faces

PICTURES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("faces")
    faces_sample.make(out, identities=6, pictures=10)
    return out


def asked(folder, sizes=None, **changes) -> Input:
    dimensions = Dimensions(
        facts.DIMENSIONS, {"num_classes": 6, "image_size": 112, **(sizes or {})}
    )
    found = Input("insightface", "sample", str(folder), 8, dimensions, 1)
    return found._replace(**changes)


def batches(count, *of, **changes) -> list:
    with faces.open_batches(asked(*of, **changes), prefetch=1) as opened:
        return [opened.next() for _ in range(count)]


def test_records_are_those_that_were_written(folder):
    records = Records(str(folder / "train.rec"))
    written = list(recordio.read(folder / "train.rec"))
    assert len(records) == len(written) == 1 + PICTURES + 6
    for number in (0, 1, PICTURES, PICTURES + 6):
        labels, content = records.read(number)
        wanted = written[number]["label"]
        assert labels == (wanted if isinstance(wanted, tuple) else (wanted,))
        assert content == written[number]["image"]
    with pytest.raises(DataError, match="none of number 67"):
        records.read(67)
    records.close()


def test_a_record_that_has_the_magic_number_in_it_is_read_whole(tmp_path):
    content = b"abcd" + recordio.MAGIC + b"efgh" + recordio.MAGIC
    recordio.write(tmp_path / "a.rec", [{"id": 0, "label": (1.0, 2.0), "image": content}])
    assert Records(str(tmp_path / "a.rec")).read(0) == ((1.0, 2.0), content)


def test_an_epoch_has_each_picture_once_with_its_identity(folder):
    found = batches(PICTURES // 10, folder, batch_size=10)
    assert Counter(label for _, labels in found for label in labels) == dict.fromkeys(range(6), 10)
    images, labels = found[0]
    assert (images.dtype.name, images.shape) == ("float32", (10, 112, 112, 3))
    assert (labels.dtype.name, labels.shape) == ("int32", (10,))
    assert np.array_equal(images * 128 + 127.5, np.round(images * 128 + 127.5))
    assert -1 < images.min() < -0.9 and 0.9 < images.max() < 1


def test_ranks_share_the_batches_of_one_rank(folder):
    whole = batches(3, folder, batch_size=8)
    parts = [batches(3, folder, batch_size=4, part=part, parts=2) for part in (0, 1)]
    for together, *halves in zip(whole, *parts, strict=True):
        for array, *both in zip(together, *halves, strict=True):
            assert np.array_equal(array, np.concatenate(both))


def test_both_layouts_and_a_smaller_size_are_of_the_same_pixels(folder):
    (large,), (other,) = batches(1, folder), batches(1, folder, {"image_size": 48})
    assert np.array_equal(large[0][:, 32:80, 32:80], other[0])
    with faces.open_batches(asked(folder), "NCHW", prefetch=1) as opened:
        assert np.array_equal(opened.next()[0].transpose(0, 2, 3, 1), large[0])


def test_half_of_the_pictures_are_flipped_and_another_half_in_the_next_epoch(folder):
    both = batches(2 * PICTURES, folder, batch_size=1)
    first, second = (
        {tuple(np.sort(image.ravel())[::97]): image for image, _ in part}
        for part in (both[:PICTURES], both[PICTURES:])
    )
    same = sum(np.array_equal(image, second[key]) for key, image in first.items())
    mirrored = sum(np.array_equal(image[:, :, ::-1], second[key]) for key, image in first.items())
    assert same + mirrored == PICTURES and 15 < same < 45


def test_fewer_identities_than_the_cases_are_spread_over_all(folder):
    found = batches(7, folder, {"num_classes": 61})
    assert {label for _, labels in found for label in labels} == {0, 10, 20, 30, 40, 50}


def test_synthetic_labels_lie_over_all_identities_and_differ_between_parts():
    parts = [
        batches(1, "", {"num_classes": 1000}, data="synthetic", batch_size=32, part=part, parts=4)
        for part in range(4)
    ]
    labels = np.sort(np.concatenate([labels for ((_, labels),) in parts]))
    assert len(np.unique(labels)) == 128
    assert all(7 * place <= label < 8 * place + 8 for place, label in enumerate(labels))


def test_a_given_sample_is_that_of_the_global_batch_for_each_rank(folder, monkeypatch):
    monkeypatch.setattr(facts, "GIVEN_SAMPLE", 1)
    sizes = {"num_classes": 1001, "head": "partial"}
    parts = [batches(2, folder, sizes, batch_size=4, part=part, parts=2) for part in (0, 1)]
    for step, ((_, one, given), (_, other, again)) in enumerate(zip(*parts, strict=True)):
        assert given.dtype == np.int32 and np.array_equal(given, again)
        labels, dimensions = np.concatenate([one, other]), asked(folder, sizes).dimensions
        wanted = [sampling.sample(dimensions, 1, step, rank, 2, labels) for rank in (0, 1)]
        assert np.array_equal(np.flatnonzero(given), np.concatenate(wanted))
    assert len(batches(1, folder, {"num_classes": 1001})[0]) == 2, "all centres are taken"


def test_synthetic_batches_have_a_given_sample_too(monkeypatch):
    """Of all ranks' identities, the same for each rank, and another one by each number."""
    sizes, samples = {"num_classes": 1001, "head": "partial"}, []
    for number in (1, 2):
        monkeypatch.setattr(facts, "GIVEN_SAMPLE", number)
        asked = {"data": "synthetic", "batch_size": 4, "parts": 2}
        (own,), (others,) = (batches(1, "", sizes, **asked, part=part) for part in (0, 1))
        assert np.array_equal(own[2], others[2])
        labels = np.concatenate([own[1], others[1]])
        assert own[2].sum() == 2 * 50 and own[2][labels].all()
        samples.append(own[2])
    assert not np.array_equal(*samples)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": {"num_classes": 5}}, "num_classes is 5, but .* have 6 identities"),
        ({"batch_size": 40, "parts": 2}, "has 60 pictures, fewer than the 80"),
    ],
)
def test_what_cannot_be_read_is_one_message(folder, changes, message):
    with pytest.raises(DataError, match=message):
        batches(1, folder, **changes)


def test_a_damaged_file_is_one_message(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "faces")
    path = tmp_path / "faces/train.rec"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="train.rec: has .* bytes"):
        batches(1, tmp_path / "faces")
    with pytest.raises(DataError, match="there is no record here|a part of a record is missing"):
        Records(str(path)).read(PICTURES + 6)
    (tmp_path / "faces/train.idx").unlink()
    with pytest.raises(DataError, match="train.idx"):
        Records(str(path))
