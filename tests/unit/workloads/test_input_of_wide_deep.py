"""Criteo's rows become numbers and ids by the rules of layout 1; batches are the same for all."""

import gzip
import io
import json
import tarfile
from bisect import bisect_right
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dlperf.contract.run import Input
from dlperf.loaders import DataError
from dlperf.prepare import criteo, criteo_sample, manifest, shards
from dlperf.prepare.formats import npz
from dlperf.workloads.wide_deep import input as clicks

ROWS = 3000


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("criteo")
    criteo_sample.make(folder, rows=ROWS)
    return folder


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("clicks")
    criteo.make(out, source, count=3, jobs=2)
    return out


def read(folder: Path) -> list[dict]:
    return [row for path in sorted(folder.glob("*.npz")) for row in npz.read(path)]


def raw(source: Path) -> list[list[str]]:
    lines = (source / "train.txt").read_text().splitlines()
    return [line.split("\t") for line in lines]


def asked(folder, vocabulary=15_600, **changes) -> Input:
    found = Input("wide_deep", "sample", str(folder), 8, {"vocabulary": vocabulary}, 1)
    return found._replace(**changes)


def batches(count, *of, **changes) -> list[clicks.Batch]:
    with clicks.open_batches(asked(*of, **changes), prefetch=1) as opened:
        return [opened.next() for _ in range(count)]


def test_rows_keep_their_order_and_labels(source, folder):
    made = json.loads((folder / "manifest.json").read_text())
    assert (made["samples"], made["tests"], made["shards"]) == (ROWS, ROWS // 6, 3 + 1)
    assert [row["labels"] for row in read(folder)] == [int(row[0]) for row in raw(source)]


def test_each_field_has_its_own_ids_and_rare_values_are_missing_ones(source, folder):
    rows, found = raw(source), np.array([row["deep"] for row in read(folder)])
    start = 0
    for field in range(26):
        values = [row[14 + field] for row in rows]
        trained = values[:ROWS]  # what is seen in the tests alone is a missing one
        often = sorted(v for v, seen in Counter(trained).items() if v and seen >= 6)
        wanted = [start + 1 + often.index(v) if v in often else start for v in values]
        assert found[:, field].tolist() == wanted
        start += 1 + len(often)
    assert json.loads((folder / "manifest.json").read_text())["deep"] == start


def test_crosses_are_of_the_first_two_pairs_in_a_space_of_their_own(source, folder):
    rows, found = raw(source), np.array([row["wide"] for row in read(folder)])
    of = {}
    for row, ids in zip(rows, found, strict=True):
        for cross, (one, other) in enumerate(((14, 15), (16, 17))):
            of.setdefault((cross, ids[cross]), set()).add((row[one], row[other]))
    assert max(map(len, of.values())) > 1, "rare ones share the id of missing"
    several = [key for key, pairs in of.items() if len(pairs) > 1]
    assert len(several) <= 2
    first, second = set(found[:, 0]), set(found[:, 1])
    assert not first & second and max(first) < min(second)


def test_a_number_is_its_rank_and_a_missing_one_is_zero(source, folder):
    rows, found = raw(source), np.array([row["numbers"] for row in read(folder)])
    for column in range(13):
        values = [row[1 + column] for row in rows]
        ordered = sorted({int(value) for value in values[:ROWS] if value})
        wanted = [bisect_right(ordered, int(v)) / len(ordered) if v else 0 for v in values]
        assert found[:, column] == pytest.approx(wanted, abs=1e-6)


def test_shards_are_the_same_however_many_processes_make_them(source, folder, tmp_path):
    again = criteo.make(tmp_path, source, count=3, jobs=1)
    assert again["sha256"] == json.loads((folder / "manifest.json").read_text())["sha256"]
    other = criteo.make(tmp_path / "other", source, count=7)
    assert (other["samples"], other["test_shards"]) == (ROWS, 2)


def test_rows_are_the_same_whatever_is_read_at_a_time(source, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(criteo, "BLOCK", 1000)
    monkeypatch.setattr(criteo, "FRESH", 7)
    again = criteo.make(tmp_path, source, count=3)
    assert again["sha256"] == json.loads((folder / "manifest.json").read_text())["sha256"]


def test_the_digest_is_that_of_the_rows_one_by_one(folder):
    made = json.loads((folder / "manifest.json").read_text())
    assert shards.digest(folder, made) == made["samples_sha256"]


def test_the_challenges_archive_and_a_compressed_file_are_taken_as_they_are(
    source, folder, tmp_path
):
    wanted = json.loads((folder / "manifest.json").read_text())["samples_sha256"]
    archive, day = tmp_path / "challenge.tar.gz", tmp_path / "day_0.gz"
    with tarfile.open(archive, "w:gz") as opened:
        for name in ("readme.txt", "train.txt"):
            text = b"" if name == "readme.txt" else (source / name).read_bytes()
            member = tarfile.TarInfo(f"dac/{name}")
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text))
    # as Windows ends lines, and without an end of the last one
    text = (source / "train.txt").read_bytes().replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    day.write_bytes(gzip.compress(text))
    for number, file in enumerate((archive, day, source / "train.txt")):
        made = criteo.make(tmp_path / str(number), file, count=3)
        assert made["samples"] == ROWS
        if file != day:  # whose shards may begin at other rows
            assert made["samples_sha256"] == wanted
        assert [row["labels"] for row in read(tmp_path / str(number))] == [
            row["labels"] for row in read(folder)
        ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0",
        "1",
        "2",
        archive.name,
        day.name,
    ]
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"challenge\.tar\.gz: is damaged"):
        criteo.make(tmp_path / "damaged", archive)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda row: row[:-1], r"line 2: has 39 columns; 40 are needed"),
        (lambda row: ["2", *row[1:]], "line 2: the label is '2'; it must be 0 or 1"),
        (lambda row: ["01", *row[1:]], "line 2: the label is '01'"),
        (lambda row: [*row[:3], "1.5", *row[4:]], "line 2: number 3 is '1.5'"),
        (lambda row: [*row[:3], "-", *row[4:]], "line 2: number 3 is '-'"),
        (lambda row: [*row[:3], "1" * 19, *row[4:]], "a whole number of at most 18 digits"),
        (lambda row: [*row, ""], r"line 2: has 41 columns; 40 are needed"),
        (lambda row: [*row[:20], "68fd1e6g", *row[21:]], "line 2: category 7 is '68fd1e6g'"),
        (lambda row: [*row[:20], "68fd1e6", *row[21:]], "must be 8 hexadecimal digits or empty"),
    ],
)
def test_a_row_of_another_form_is_one_message_and_nothing_is_made(
    source, tmp_path, change, message
):
    rows = raw(source)[:20]
    rows[1] = change(rows[1])
    damaged = tmp_path / "damaged"
    manifest.begin(damaged)
    (damaged / "train.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    manifest.finish(damaged, "criteo", manifest.listed(damaged, ["train.txt"]))
    with pytest.raises(DataError, match=message):
        criteo.make(tmp_path / "out", damaged)
    assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit, match="error: .*train.txt: line 2"):
        criteo.main([f"--source={damaged}", f"--out={tmp_path / 'out'}"])


def test_a_row_that_is_only_tested_with_is_looked_at_too(source, tmp_path):
    rows = raw(source)[:21]
    rows[20][0] = "2"
    (tmp_path / "train.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="line 21: the label is '2'"):
        criteo.make(tmp_path / "out", tmp_path / "train.txt")


def test_negative_numbers_are_ranked_before_others(source, tmp_path):
    rows = raw(source)[:60]
    for place, row in enumerate(rows):
        row[2] = str(place % 3 - 2)
    (tmp_path / "train.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    criteo.make(tmp_path / "out", tmp_path / "train.txt", count=1)
    found = [row["numbers"][1] for row in read(tmp_path / "out")]
    assert found[:3] == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_folder_without_criteos_file_says_so(tmp_path):
    manifest.finish(tmp_path, "other", [])
    with pytest.raises(DataError, match=r"lists no train\.txt"):
        criteo.make(tmp_path / "out", tmp_path)


def test_an_epoch_has_each_row_once(folder):
    found = batches(ROWS // 100, folder, batch_size=100)
    seen = Counter(tuple(row) for batch in found for row in batch.deep)
    assert seen == Counter(tuple(row["deep"]) for row in read(folder)[:ROWS])


def test_the_first_part_tests_with_all_rows_that_are_held_out(folder):
    wanted = read(folder)[ROWS:]
    with clicks.open_batches(asked(folder, batch_size=64, parts=2), prefetch=1) as opened:
        tests = list(opened.tests())
    assert {len(batch.labels) for batch, _ in tests} == {64}
    for field in clicks.Batch._fields:
        rows = [row for batch, count in tests for row in getattr(batch, field)[:count]]
        assert np.array_equal(rows, [row[field] for row in wanted])
    with clicks.open_batches(asked(folder, part=1, parts=2), prefetch=1) as opened:
        assert not list(opened.tests())


def test_a_training_to_a_quality_begins_with_noise_and_needs_the_whole_set(folder, monkeypatch):
    training = dict(batch_size=8, warmup=2, held_out=True)
    with pytest.raises(DataError, match="has 3000 rows to train on and 500 to test with; .* 50000"):
        batches(1, folder, **training)
    data = clicks.DATA["sample"]._replace(samples=ROWS, tests=ROWS // 6)
    monkeypatch.setitem(clicks.DATA, "sample", data)
    with clicks.open_batches(asked(folder, **training), prefetch=1) as opened:
        noise = [opened.next() for _ in range(2)]
        opened.begin()
        first = opened.next()
    assert all(batch.deep.max() > 15_000 for batch in noise), "over all rows of the table"
    assert np.array_equal(first.deep, batches(1, folder)[0].deep)


def test_ranks_share_the_batches_of_one_rank(folder):
    whole = batches(3, folder, batch_size=8)
    parts = [batches(3, folder, batch_size=4, part=part, parts=2) for part in (0, 1)]
    for together, *halves in zip(whole, *parts, strict=True):
        for field, array in together._asdict().items():
            both = [getattr(half, field) for half in halves]
            assert np.array_equal(array, np.concatenate(both))


def test_batches_have_their_types_and_depend_on_the_seed(folder):
    (one,), (again,), (other,) = (batches(1, folder, seed=seed) for seed in (1, 1, 2))
    assert [each.dtype.name for each in one] == ["float32", "int32", "int32", "float32"]
    assert [each.shape for each in one] == [(8, 13), (8, 2), (8, 26), (8,)]
    assert all(map(np.array_equal, one, again))
    assert not np.array_equal(one.deep, other.deep)


def test_synthetic_ids_lie_over_each_fields_share_of_all_rows():
    rows = 2_600_001
    (batch,) = batches(1, "", rows, data="synthetic", batch_size=5000)
    for ids in (batch.wide, batch.deep):
        for field, column in enumerate(ids.T):
            first, end = (rows * place // ids.shape[1] for place in (field, field + 1))
            assert first <= column.min() < first + (end - first) / 100
            assert end - (end - first) / 100 < column.max() < end
    assert batch.labels.mean() == pytest.approx(clicks.CLICKS, abs=0.03)
    assert 0 <= batch.numbers.min() and batch.numbers.max() <= 1
    (least,) = batches(1, "", 26, data="synthetic", batch_size=3)
    assert least.deep.tolist() == 3 * [list(range(26))]


def test_ids_beyond_the_largest_vocabulary_do_not_overflow():
    (batch,) = batches(1, "", 2**31 - 1, data="synthetic", batch_size=64)
    assert batch.deep.min() >= 0 and batch.deep.max() > 2**31 - 2**27


def test_a_vocabulary_below_the_datas_ids_is_one_message(folder):
    needed = json.loads((folder / "manifest.json").read_text())["deep"]
    batches(1, folder, needed)
    with pytest.raises(DataError, match=f"vocabulary is {needed - 1}, but .* have {needed} ids"):
        batches(1, folder, needed - 1)


def test_another_data_set_and_too_few_rows_are_refused(source, folder):
    with pytest.raises(DataError, match="has the data set 'criteo-sample'"):
        batches(1, source)
    with pytest.raises(DataError, match="has 3000 examples, fewer than the 4000"):
        batches(1, folder, batch_size=2000, parts=2)
    with pytest.raises(DataError, match="no such file"):
        batches(1, folder / "none")
