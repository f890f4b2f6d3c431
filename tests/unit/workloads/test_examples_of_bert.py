"""Ready examples come from their shards: each once an epoch, shared by ranks, none wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from dlperf.contract.run import Input
from dlperf.loaders import rows
from dlperf.loaders.manifest import SAMPLES, DataError, Digest
from dlperf.prepare import shards
from dlperf.prepare.formats import npz
from dlperf.workloads.bert.facts import DATA
from dlperf.workloads.bert.input import FIELDS, Batch, open_batches

LENGTH, PLACES, COUNT = 32, 5, (7, 4, 6)


def example(number: int) -> dict:
    """Whose first token says which one it is."""
    row = np.arange(LENGTH, dtype=np.int32) + number
    places = np.arange(PLACES, dtype=np.int32)
    return {
        "input_ids": row,
        "input_mask": np.ones(LENGTH, np.int32),
        "segment_ids": (row % 2).astype(np.int32),
        "masked_lm_positions": places,
        "masked_lm_ids": places + number,
        "masked_lm_weights": np.ones(PLACES, np.float32),
        "next_sentence_labels": number % 2,
    }


def write_shard(number: int, path: Path) -> dict:
    first = sum(COUNT[:number])
    samples = [example(first + row) for row in range(COUNT[number])]
    digest = Digest()
    for sample in samples:
        digest.add(*(sample[field] for field in FIELDS))
    npz.write(path, samples)
    return {"samples": len(samples), SAMPLES: digest.hex()}


@pytest.fixture
def folder(tmp_path) -> Path:
    settings = {"dataset": "examples", "sequence_length": LENGTH}
    shards.make(tmp_path, "npz", len(COUNT), write_shard, FIELDS, settings)
    return tmp_path


def batches(folder, count, batch_size=2, rank=0, ranks=1, seed=1, **changes) -> list[Batch]:
    asked = {"workload": "bert", "data": "wikipedia_sample", "data_dir": str(folder)}
    asked.update(dimensions={"sequence_length": LENGTH, **changes}, seed=seed)
    asked.update(batch_size=batch_size, part=rank, parts=ranks)
    with open_batches(Input(**asked), prefetch=1) as opened:
        return [opened.next() for _ in range(count)]


def numbers(found: list[Batch]) -> list[int]:
    return [int(row[0]) for batch in found for row in batch.tokens]


def test_a_batch_has_the_examples_fields(folder):
    for row in range(2):
        (batch,) = batches(folder, 1)
        expected = example(int(batch.tokens[row, 0]))
        for array, field in zip(batch, FIELDS, strict=True):
            assert np.array_equal(array[row], expected[field]), field


def test_an_epoch_has_each_example_once_and_another_order(folder):
    found = numbers(batches(folder, 34, batch_size=1))
    assert sorted(found[:17]) == sorted(found[17:]) == list(range(17))
    assert found[:17] != found[17:] and found[:17] != list(range(17))
    assert numbers(batches(folder, 17, batch_size=1, seed=2)) != found[:17]


def test_what_fills_no_global_batch_is_left_out_of_the_epoch(folder):
    found = numbers(batches(folder, 8, batch_size=4))
    assert len(set(found[:16])) == len(set(found[16:])) == 16


def test_ranks_share_the_batch_that_one_rank_sees(folder):
    whole = batches(folder, 5, batch_size=4)
    parts = [batches(folder, 5, batch_size=2, rank=rank, ranks=2) for rank in (0, 1)]
    for one, *halves in zip(whole, *parts, strict=True):
        for array, *pieces in zip(one, *halves, strict=True):
            assert np.array_equal(array, np.concatenate(pieces))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_length": 64}, r"sequences of 32 tokens; 'npz' and 64 are needed"),
        ({"batch_size": 18}, r"has 17 examples, fewer than the 18 of one global batch"),
    ],
)
def test_what_does_not_fit_is_told(folder, changes, message):
    with pytest.raises(DataError, match=message):
        batches(folder, 1, **changes)


def test_a_shard_that_is_missing_or_cut_off_is_named(folder):
    path = folder / json.loads((folder / "manifest.json").read_text())["files"][1]["path"]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=f"{path.name}: has .* bytes"):
        batches(folder, 1)
    path.unlink()
    with pytest.raises(DataError, match=f"{path.name}: missing"):
        batches(folder, 1)


def test_mapped_arrays_are_those_of_numpy_and_compressed_ones_are_refused(folder, tmp_path):
    path = next(folder.glob("*.npz"))
    mapped = rows.mapped(str(path))
    with np.load(path) as loaded:
        assert set(loaded.files) == set(mapped)
        for name in loaded.files:
            assert np.array_equal(mapped[name], loaded[name])
            assert isinstance(mapped[name], np.memmap)
    np.savez_compressed(tmp_path / "small.npz", a=np.zeros(9))
    with pytest.raises(DataError, match="compressed"):
        rows.mapped(str(tmp_path / "small.npz"))
    with pytest.raises(DataError, match="not a whole NPZ archive"):
        (tmp_path / "none.npz").write_bytes(b"nothing")
        rows.mapped(str(tmp_path / "none.npz"))


def test_the_last_shard_is_held_out_to_test_with(folder, monkeypatch):
    kind = DATA["wikipedia_sample"]._replace(tests=5)
    monkeypatch.setitem(DATA, "wikipedia_sample", kind)
    asked = Input(
        workload="bert",
        data="wikipedia_sample",
        data_dir=str(folder),
        batch_size=2,
        dimensions={"sequence_length": LENGTH},
        seed=1,
        warmup=1,
        held_out=True,
    )
    with open_batches(asked) as opened:
        opened.next()  # noise
        opened.begin()
        trained = numbers([opened.next() for _ in range(5)])
        tests = opened.tests()
    assert [own for _, own in tests] == [2, 2, 1]
    tested = [number for batch, own in tests for number in numbers([batch])[:own]]
    assert tested == [11, 12, 13, 14, 15] and sorted(trained) == sorted(set(range(11)) & {*trained})
    monkeypatch.setitem(DATA, "wikipedia_sample", kind._replace(tests=7))
    with pytest.raises(DataError, match="has 6 examples; 7 are needed: make fewer shards"):
        open_batches(asked)
