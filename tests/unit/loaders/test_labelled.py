"""Digits to train to a quality on: the same for every framework, and untouched until it begins."""

import json
import threading

import numpy as np
import pytest

from dlperf.contract.run import Input
from dlperf.loaders import DataError
from dlperf.loaders import labelled as arrays
from dlperf.prepare import digits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("digits")
    digits.make(out)
    return out


def asked(folder, **more):
    given = dict(workload="resnet50", data="digits", data_dir=str(folder), batch_size=32, seed=1)
    return Input(**{**given, "dimensions": {"image_size": 32}, **more})


def test_a_fifth_of_each_digit_is_to_test_with_and_none_of_it_to_train_on(folder):
    train, test = np.load(folder / "train.npz"), np.load(folder / "test.npz")
    assert (len(train["labels"]), len(test["labels"])) == (1438, 359)
    for digit in range(10):
        shares = [(each["labels"] == digit).sum() for each in (train, test)]
        assert shares[1] / sum(shares) == pytest.approx(0.2, abs=0.005)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["samples"], manifest["tests"]) == (1438, 359)
    assert manifest["sources"][0]["licence"]


def test_images_are_enlarged_alike_in_both_layouts_and_normalised(folder):
    with (
        arrays.open_batches(asked(folder)) as last,
        arrays.open_batches(asked(folder), "NCHW") as first,
    ):
        images, labels = last.next()
        others, same = first.next()
    assert images.shape == (32, 32, 32, 3) and labels.dtype == np.int32
    assert np.array_equal(images, others.transpose(0, 2, 3, 1)) and np.array_equal(labels, same)
    assert np.array_equal(images[:, ::4, ::4], images[:, 3::4, 3::4])  # a pixel is 4 x 4
    assert abs(images.mean()) < 0.1 and abs(images.std() - 1) < 0.1


def test_two_readers_see_together_what_one_of_twice_the_batch_sees(folder):
    whole = arrays.open_batches(asked(folder))
    parts = [arrays.open_batches(asked(folder, batch_size=16, parts=2, part=p)) for p in (0, 1)]
    for _ in range(46):  # into the second epoch
        images, labels = whole.next()
        halves = [each.next() for each in parts]
        assert np.array_equal(labels, np.concatenate([each[1] for each in halves]))
        assert np.array_equal(images, np.concatenate([each[0] for each in halves]))
    for each in [whole, *parts]:
        each.close()


def test_an_epoch_has_each_image_at_most_once_and_another_seed_another_order(folder):
    def epoch(seed):
        with arrays.open_batches(asked(folder, seed=seed)) as batches:
            return np.concatenate([batches.next()[0][:, ::4, ::4, 0] for _ in range(44)])

    one, other = epoch(1), epoch(2)
    assert len(np.unique(one.reshape(len(one), -1), axis=0)) > 0.99 * len(one)
    assert not np.array_equal(one, other)


def test_nothing_to_train_on_is_read_before_it_begins(folder, monkeypatch):
    read = threading.Event()
    original = arrays.Set.read

    def noted(self, name):
        read.set()
        return original(self, name)

    monkeypatch.setattr(arrays.Set, "read", noted)
    batches = arrays.open_batches(asked(folder, warmup=2))
    noise = [batches.next() for _ in range(2)]
    assert not read.wait(0.2) and batches.first_batch_sha256 is None
    batches.begin()
    images, _ = batches.next()
    assert read.is_set()
    batches.close()
    with arrays.open_batches(asked(folder)) as plain:
        assert np.array_equal(images, plain.next()[0])  # the same order behind any warm-up
        assert batches.first_batch_sha256 == plain.first_batch_sha256
    assert not np.array_equal(noise[0][0], noise[1][0])


def test_the_test_set_comes_whole_in_batches_of_one_shape_each_part_its_share(folder):
    with arrays.open_batches(asked(folder)) as batches:
        tests = batches.tests()
    assert {batch[0].shape for batch, _ in tests} == {(32, 32, 32, 3)}
    labels = np.concatenate([batch[1][:count] for batch, count in tests])
    assert np.array_equal(labels, np.load(folder / "test.npz")["labels"])
    shares = []
    for part in (0, 1):
        with arrays.open_batches(asked(folder, parts=2, part=part)) as batches:
            shares.append(np.concatenate([batch[1][:count] for batch, count in batches.tests()]))
    assert np.array_equal(np.concatenate(shares), labels)


def test_what_cannot_be_is_one_message(folder):
    with arrays.open_batches(asked(folder, dimensions={"image_size": 36})) as batches:
        with pytest.raises(DataError, match="a multiple of 8 is needed"):
            batches.next()
    with arrays.open_batches(asked(folder, batch_size=2000)) as batches:
        with pytest.raises(DataError, match="1438 images to train on, fewer than the 2000"):
            batches.next()
    with pytest.raises(DataError, match="no such file; make the data again"):
        arrays.open_batches(asked(folder / "nowhere"))
