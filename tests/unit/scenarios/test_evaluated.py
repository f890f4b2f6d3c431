"""One batch of a test is drawn behind its answer, and the weights are kept as they are read."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf.contract.ownership import Part
from dlperf.contract.projection import summary
from dlperf.contract.work import Table, Work, table
from dlperf.scenarios import evaluated

RUN = SimpleNamespace(rank=0)


def sums(run, batch, own, outputs):
    """What counts of these answers."""
    return [float(outputs[:own].sum()), float(own)]


def seen(count: int, outputs=None) -> evaluated.Drawn:
    drawn = evaluated.Drawn()
    for number in range(count):
        batch = (np.full((4, 2), number, "float32"),)
        answers = np.full((4, 3), number, "float32") if outputs is None else outputs
        drawn.see(batch, 3, answers, sums(RUN, batch, 3, answers))
    return drawn


def test_each_batch_is_drawn_as_often_as_any_other():
    found = Counter(seen(5).shown(RUN, sums)["batch"] for _ in range(2000))
    assert set(found) == set(range(5))
    assert all(300 < count < 500 for count in found.values())  # 400 by chance, 18 deviate


def test_its_answers_are_shown_without_those_that_fill_it_up():
    shown = seen(1).shown(RUN, sums)
    assert shown["shape"] == [3, 3] and len(shown["samples"]) == 3
    outputs = np.zeros((3, 3), "float32")
    assert shown["samples"] == summary(outputs, shown["signs"])["samples"]
    assert shown["sha256"] == evaluated.sha256_of((np.zeros((4, 2), "float32"),))


def test_a_rank_that_tests_nothing_shows_nothing():
    assert evaluated.Drawn().shown(RUN, sums) == {"rank": 0}


def test_answers_that_were_changed_after_they_were_counted_are_refused():
    outputs = np.ones((4, 3), "float32")
    drawn = seen(3, outputs)
    outputs[1] = 2
    with pytest.raises(RuntimeError, match="changed after they were counted"):
        drawn.shown(RUN, sums)


def test_an_array_that_may_compute_when_it_is_read_is_refused():
    class Late(np.ndarray):
        pass

    with pytest.raises(TypeError, match="Late"):
        seen(1, np.ones((4, 3), "float32").view(Late)).shown(RUN, sums)


def test_images_have_one_sha256_whichever_axis_has_the_colours():
    images = np.random.RandomState(1).standard_normal((2, 3, 8, 8)).astype("float32")
    last = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    assert evaluated.sha256_of([images]) == evaluated.sha256_of([last])
    assert evaluated.sha256_of([images]) != evaluated.sha256_of([images[::-1]])


def work(pairs, statistics=()) -> Work:
    weights = SimpleNamespace(read=lambda: iter(pairs), statistics=lambda: iter(statistics))
    return Work(None, None, None, 0, None, {}, weights)  # type: ignore[arg-type]


def kept(tmp_path, pairs, statistics=(), rank=0):
    """(what the record's hash is of, what was kept)."""
    run = SimpleNamespace(rank=rank, weights_dir=str(tmp_path / "weights"))
    keeping, given = evaluated.keeping(run, work(pairs, statistics)), {}
    for key, array in keeping.weights.read():
        rows = [each for _, _, each in array.parts()] if isinstance(array, Table) else [array]
        given[key] = np.concatenate(rows)
    path = evaluated.path_of(run.weights_dir, rank)
    return given, dict(evaluated.read(path)), path


RIGHT = np.arange(6, dtype="float32").reshape(3, 2)


def test_weights_are_kept_as_they_are_read_large_tables_by_rows(tmp_path):
    rows = table((3, 2), lambda first, last: RIGHT[first:last], 2)
    given, found, _ = kept(tmp_path, [("a", RIGHT.T), ("b", rows)], [("running", RIGHT[0])])
    assert np.array_equal(given["b"], RIGHT)
    assert list(found) == [("weight", "a"), ("weight", "b"), ("statistic", "running")]
    assert np.array_equal(found["weight", "a"], RIGHT.T)
    assert np.array_equal(found["weight", "b"], RIGHT)
    assert np.array_equal(found["statistic", "running"], RIGHT[0])


def test_of_other_ranks_the_statistics_alone(tmp_path):
    _, found, _ = kept(tmp_path, [("a", RIGHT)], [("running", RIGHT[0])], rank=1)
    assert list(found) == [("statistic", "running")]


def test_where_they_cannot_be_written_they_are_read_all_the_same(tmp_path):
    (tmp_path / "weights").write_text("no folder")
    with pytest.raises(OSError):
        kept(tmp_path, [("a", RIGHT)])
    run = SimpleNamespace(rank=0, weights_dir=str(tmp_path / "weights"))
    assert [key for key, _ in evaluated.keeping(run, work([("a", RIGHT)])).weights.read()] == ["a"]


def test_parts_of_a_model_are_not_kept(tmp_path):
    with pytest.raises(OSError):
        kept(tmp_path, [(Part("a", 0, ((0, 3),)), RIGHT), ("b", RIGHT)])
    assert not list((tmp_path / "weights").iterdir())
