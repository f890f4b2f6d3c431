"""The sample sets of advertisements and of faces have the layout of the real ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from dlperf.analysis.report import provenance
from dlperf.loaders.manifest import verify
from dlperf.prepare import criteo_sample, faces_sample
from dlperf.prepare.formats import recordio


@pytest.fixture(scope="module")
def criteo(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("criteo")
    criteo_sample.make(folder, rows=5000)
    return folder


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("faces")
    faces_sample.make(folder, identities=12, pictures=3)
    return folder


def test_a_row_has_a_label_13_numbers_and_26_categories(criteo):
    rows = [line.split("\t") for line in (criteo / "train.txt").read_text().splitlines()]
    assert len(rows) == 5000 + 5000 // 6 and {len(row) for row in rows} == {40}
    assert {row[0] for row in rows} == {"0", "1"}
    assert all(not value or int(value) >= 0 for row in rows for value in row[1:14])
    assert all(not value or int(value, 16) < 2**32 for row in rows for value in row[14:])
    clicks = verify(str(criteo / "manifest.json"))["clicks"]
    assert clicks == sum(row[0] == "1" for row in rows)
    assert sum(row[0] == "1" for row in rows[:5000]) == pytest.approx(0.256 * 5000, abs=1)
    tests = [row[0] == "1" for row in rows[5000:]]
    assert sum(tests) == pytest.approx(0.256 * len(tests), rel=0.2)


def test_categories_have_long_tails_and_columns_have_gaps(criteo):
    rows = [line.split("\t") for line in (criteo / "train.txt").read_text().splitlines()]
    columns = list(zip(*rows, strict=True))
    distinct = [len(set(column) - {""}) for column in columns[14:]]
    assert min(distinct) == 3 and max(distinct) > 1000
    gaps = sorted(column.count("") / len(rows) for column in columns[1:])
    assert gaps[0] == 0 and gaps[-1] == pytest.approx(0.5, abs=0.03)


def test_the_labels_can_be_learned(criteo):
    rows = [line.split("\t") for line in (criteo / "train.txt").read_text().splitlines()]
    labels = np.array([int(row[0]) for row in rows])
    score = np.array([sum(np.log1p(int(value or 0)) for value in row[1:4]) for row in rows])
    order = score.argsort()
    ranks = np.empty(len(rows))
    ranks[order] = np.arange(len(rows))
    positives = labels.sum()
    area = (ranks[labels == 1].sum() - positives * (positives - 1) / 2) / (
        positives * (len(rows) - positives)
    )
    assert 0.6 < area < 0.95


def test_faces_have_the_layout_of_insightface(faces):
    first, *records = recordio.read(faces / "train.rec")
    assert first["label"] == (37.0, 49.0)  # behind the pictures, and behind the identities
    pictures, identities = records[:36], records[36:]
    assert [each["label"] for each in pictures] == [number // 3 for number in range(36)]
    assert all(each["image"][:2] == b"\xff\xd8" for each in pictures)
    assert [each["label"] for each in identities] == [(1.0 + 3 * i, 4.0 + 3 * i) for i in range(12)]
    assert (faces / "property").read_text() == "12,112,112\n"


def test_the_report_says_what_they_hold(faces):
    manifest = json.loads((faces / "manifest.json").read_text())
    assert provenance.contents(manifest) == "36 images of 12 identities"


def test_they_are_made_the_same_twice(criteo, faces, tmp_path):
    criteo_sample.make(tmp_path / "criteo", rows=5000)
    faces_sample.make(tmp_path / "faces", identities=12, pictures=3)
    for folder, again in ((criteo, "criteo"), (faces, "faces")):
        for path in folder.iterdir():
            assert path.read_bytes() == (tmp_path / again / path.name).read_bytes()
