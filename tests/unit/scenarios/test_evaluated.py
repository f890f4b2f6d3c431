"""One batch of a test is drawn behind its answer, and the weights are kept as they are read."""

import threading
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf.contract.ownership import Part
from dlperf.contract.projection import summary
from dlperf.contract.work import Table, Work, table
from dlperf.scenarios import evaluated

RUN = SimpleNamespace(rank=0, workload="resnet50")


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
    # nothing but the weights is asked for
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


class Kept:
    """Weights that say where they were written."""

    def __init__(self):
        self.folders = []

    def keep(self, folder):
        self.folders.append(folder)


def behind_tests(folder, points, rank=0, ranks=1, meet=None):
    """(the AtTarget of a rank behind these tests of ResNet-50, the folders of kept weights).

    points: of each test how many of ten answers are right. The target is 0.8.
    """
    run = SimpleNamespace(
        workload="resnet50", rank=rank, ranks=ranks, target=0.8, weights_dir=str(folder)
    )
    weights = Kept()
    stopwatch = SimpleNamespace(taken=lambda: SimpleNamespace(user=1.0), meet=meet)
    at_target = evaluated.AtTarget(run, SimpleNamespace(weights=weights), stopwatch)
    for number, right in enumerate(points, 1):
        at_target.tested(number, number, [float(right), 10.0], 10)
    return at_target, weights.folders


def test_the_first_test_that_meets_the_target_is_kept_with_its_weights(tmp_path):
    at_target, folders = behind_tests(tmp_path, [1, 8, 7, 9])
    assert at_target.drawn == 2
    assert folders == [str(tmp_path / "target")] and at_target.seconds > 0
    assert behind_tests(tmp_path, [1, 7])[0].drawn is None


def both_ranks(folder, points):
    """What `behind_tests` gives of two ranks, which meet as the stopwatch lets them."""
    barrier, found = threading.Barrier(2, timeout=20), {}

    def rank(number):
        meet = lambda name: barrier.wait()  # noqa: E731
        found[number] = behind_tests(folder, points[number], number, 2, meet)

    threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return [found[number] for number in (0, 1)]


def test_the_target_is_met_by_what_all_ranks_answered_together(tmp_path):
    found = both_ranks(tmp_path, [[9, 6, 10], [6, 10, 10]])  # 0.75, 0.8, 1
    assert [at_target.drawn for at_target, _ in found] == [2, 2]
    assert [len(folders) for _, folders in found] == [1, 1]


def test_ranks_that_cannot_tell_each_other_go_on_and_keep_nothing(tmp_path):
    (tmp_path / "file").write_text("no folder")
    found = both_ranks(tmp_path / "file", [[9, 9], [9, 9]])
    assert [at_target.drawn for at_target, _ in found] == [None, None]


def test_weights_that_met_the_target_have_a_folder_of_their_own(tmp_path):
    run = SimpleNamespace(rank=0, weights_dir=str(tmp_path))
    rows = table((3, 2), lambda first, last: RIGHT[first:last], 2)
    keeping = evaluated.keeping(run, work([("a", RIGHT), ("b", rows)], [("running", RIGHT[0])]))
    keeping.weights.keep(str(tmp_path / "target"))
    found = dict(evaluated.read(tmp_path / "target/rank0"))
    assert np.array_equal(found["weight", "b"], RIGHT) and len(found) == 3
    assert not (tmp_path / "rank0").exists()
