"""What a format is given, it gives back, whatever the bytes; what is not its own, it refuses."""

import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf.loaders import DataError
from dlperf.prepare import formats
from dlperf.prepare.formats import hdf5, npz, ofrecord, recordio, tfrecord, webdataset

content = st.one_of(
    st.binary(max_size=200),
    # RecordIO's magic number, at multiples of four bytes and elsewhere
    st.lists(st.sampled_from([recordio.MAGIC, b"x", b"\0", recordio.MAGIC[:3]])).map(b"".join),
)
labels = st.integers(0, 999)


def returned(format, samples: list[dict]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"shard{format.SUFFIX}"
        format.write(path, samples)
        return list(format.read(path))


@given(st.lists(st.tuples(content, labels), max_size=4))
@settings(deadline=None)
def test_recordio_returns_any_bytes(pairs):
    samples = [
        {"image": image, "label": label, "id": number}
        for number, (image, label) in enumerate(pairs)
    ]
    assert returned(recordio, samples) == samples


@pytest.mark.parametrize("format", [tfrecord, ofrecord])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "image": content,
                "label": st.integers(-(2**31), 2**31 - 1),
                "ids": st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=9),
                "weights": st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9),
            }
        ),
        max_size=4,
    )
)
@settings(deadline=None)
def test_feature_maps_return_bytes_numbers_and_arrays(format, rows):
    samples = [
        {
            **row,
            "ids": np.array(row["ids"], np.int64),
            "weights": np.array(row["weights"], np.float32),
        }
        for row in rows
    ]
    for found, sample in zip(returned(format, samples), samples, strict=True):
        assert found.keys() == sample.keys()
        assert found["image"] == sample["image"] and found["label"] == sample["label"]
        for name in ("ids", "weights"):
            assert np.array_equal(found[name], sample[name])
            assert found[name].dtype == sample[name].dtype


@given(st.lists(st.tuples(content, labels), min_size=1, max_size=4))
@settings(deadline=None)
def test_webdataset_returns_any_bytes(pairs):
    samples = [
        {"__key__": b"n00000001/%d" % number, "cls": label, "jpg": b"\xff" + image}
        for number, (image, label) in enumerate(pairs)
    ]
    assert returned(webdataset, samples) == samples


@pytest.mark.parametrize("format", [npz, hdf5])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "image": content,
                "label": st.integers(-(2**63), 2**63 - 1),
                "ids": st.lists(st.integers(0, 2**16 - 1), max_size=9),
                "weights": st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3),
            }
        ),
        max_size=4,
    )
)
@settings(deadline=None)
def test_columns_return_bytes_numbers_and_arrays(format, rows):
    samples = [
        {
            **row,
            "ids": np.array(row["ids"], np.uint16),
            "weights": np.array(row["weights"], np.float32),
        }
        for row in rows
    ]
    for found, sample in zip(returned(format, samples), samples, strict=True):
        assert list(found) == sorted(sample) if format is hdf5 else list(sample)
        assert found["image"] == sample["image"] and found["label"] == sample["label"]
        for name in ("ids", "weights"):
            assert np.array_equal(found[name], sample[name])
            assert found[name].dtype == sample[name].dtype


@pytest.mark.parametrize("format", [npz, hdf5])
def test_columns_are_an_array_a_field(tmp_path, format):
    samples = [{"label": number, "ids": np.arange(4, dtype=np.int32)} for number in range(600)]
    path = tmp_path / f"shard{format.SUFFIX}"
    format.write(path, iter(samples))
    before = path.read_bytes()
    with np.load(path) if format is npz else h5py.File(path) as file:
        assert file["label"].shape == (600,) and file["ids"].shape == (600, 4)
        assert sorted(file) == ["ids", "label"]
    format.write(path, samples)
    assert path.read_bytes() == before, "the same bytes at another time"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    for values in (np.arange(4, dtype=np.int32), np.arange(9)):
        place = before.index(values.tobytes()) + 5
        path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
        with pytest.raises(DataError, match="shard"):
            list(format.read(path))


@pytest.mark.parametrize("format", [npz, hdf5])
def test_columns_of_two_kinds_are_refused(tmp_path, format):
    for wrong in ({"label": b"a"}, {"other": 1}, {}):
        with pytest.raises(DataError, match="label"):
            format.write(tmp_path / "shard", [{"label": 1}, wrong])


@pytest.mark.parametrize("name", ["tfrecord", "recordio", "ofrecord", "webdataset", "npz", "hdf5"])
def test_what_is_another_file_is_refused_by_name(tmp_path, name):
    path = tmp_path / "other"
    path.write_bytes(b"<html>this is no shard at all</html>" * 100)
    with pytest.raises(DataError, match="other"):
        list(formats.of(name).read(path))


def test_a_format_that_is_none_is_named():
    with pytest.raises(ValueError, match="'parquet' is not known; it is one of folders, tfrecord"):
        formats.of("parquet")
