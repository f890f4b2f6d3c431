"""What training starts with: the same under NumPy 1.18 to 2.4, of the deviation asked for."""

import hashlib
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import workloads
from dlperf.contract import tensor, work
from dlperf.contract.layout import Layout
from dlperf.contract.ownership import Part
from dlperf.loaders import libraries


def test_initial_weights_are_the_same_everywhere_and_each_tensors_own():
    initial = workloads.Initial("resnet50", {}, seed=1)
    kernel = initial["block0.conv2.weight"]
    # found alike with NumPy 1.18.5, 1.23.5, 1.26.4 and 2.4.6, all under their frameworks' Python
    assert hashlib.sha256(kernel.tobytes()).hexdigest()[:16] == "e8c67dbfb6495c33"
    assert np.array_equal(kernel, workloads.Initial("resnet50", {}, seed=1)["block0.conv2.weight"])
    assert not np.array_equal(kernel, initial["block1.conv2.weight"])
    other = workloads.Initial("resnet50", {}, seed=2)
    assert not np.array_equal(kernel, other["block0.conv2.weight"])


@pytest.mark.parametrize("workload", workloads.NAMES)
def test_initial_weights_have_the_facts_shapes_in_float32(workload):
    dimensions = workloads.certified(workload)
    initial = workloads.Initial(workload, dimensions, seed=1)
    shapes = tensor.shapes(workloads.of(workload).parameters(dimensions))
    assert list(initial) == list(shapes)
    for name in list(shapes)[-6:]:
        assert (initial[name].shape, initial[name].dtype) == (shapes[name], np.float32)


def test_normal_numbers_have_their_deviation_and_are_independent():
    drawn = workloads.Draw(np.random.default_rng(3)).normal((300, 1000), 0.02)
    assert abs(drawn.mean()) < 5 * 0.02 / 300_000**0.5
    assert drawn.std() == pytest.approx(0.02, rel=0.02)
    within = (np.abs(drawn) < 0.02).mean()
    assert within == pytest.approx(0.6827, abs=0.01)
    neighbours = np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 0.01
    rows = np.corrcoef(drawn[0], drawn[1])[0, 1]
    assert abs(rows) < 0.15


def test_uniform_numbers_fill_their_range_evenly():
    drawn = workloads.Draw(np.random.default_rng(3)).uniform((300, 1000), 0.05)
    assert drawn.dtype == np.float32
    counts, _ = np.histogram(drawn, 10, (-0.05, 0.05))
    assert counts.sum() == drawn.size, "none beyond the limit"
    assert np.abs(counts - 30_000).max() < 6 * 30_000**0.5
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 0.01


def test_a_large_table_is_drawn_without_a_second_copy():
    tracemalloc.start()
    table = workloads.Draw(np.random.default_rng(3)).uniform((1_000_000, 16), 0.05)
    assert tracemalloc.get_traced_memory()[1] < 1.05 * table.nbytes
    tracemalloc.stop()


def as_ranks(workload, dimensions, layout, ranks):
    """What says of each rank of a run which parts it has."""
    return [
        SimpleNamespace(
            workload=workload, dimensions=dimensions, layout=layout, ranks=ranks, rank=rank
        )
        for rank in range(ranks)
    ]


def drawn_parts(run):
    """(Part, array) of each tensor that a rank draws of its own."""
    names = workloads.drawn_by_rows(run)
    initial = workloads.Initial(run.workload, run.dimensions, 3, by_rows=names)
    for part in workloads.parts_of(run):
        yield part, work.as_array(part.of(initial[part.name]))


@pytest.mark.parametrize(
    ("workload", "layout", "ranks"),
    [
        ("gpt", Layout(tensor_parallel=2), 2),
        ("gpt", Layout(tensor_parallel=2, pipeline_parallel=2), 8),
        ("wide_deep", Layout(), 4),
    ],
)
def test_starting_values_that_ranks_draw_by_parts_are_the_wholes(workload, layout, ranks):
    variant = "sharded" if workload == "wide_deep" else ""
    sizes = workloads.certified(workload, variant)
    whole = workloads.Initial(workload, sizes, 3)
    runs = as_ranks(workload, sizes, layout, ranks)
    assert set(workloads.drawn_by_rows(runs[0])) > set(), "some are divided"
    found = {name: np.full(whole[name].shape, np.nan, "float32") for name in whole}
    for run in runs:
        for part, own in drawn_parts(run):
            part.put(found[part.name], own)
    for name, array in found.items():
        assert array.tobytes() == np.asarray(whole[name]).tobytes(), name


def test_rows_that_replicas_shard_are_drawn_alike():
    sizes = workloads.certified("gpt")
    (run, _) = as_ranks("gpt", sizes, Layout(zero_stage=3), 2)
    names = workloads.drawn_by_rows(run)
    assert names == list(workloads.of("gpt").parameters(sizes))
    whole = workloads.Initial("gpt", sizes, 3)
    by_rows = workloads.Initial("gpt", sizes, 3, by_rows=names)
    for name in names:
        rows = len(whole[name])
        part = Part(name, 0, ((rows // 2, rows),))
        assert np.array_equal(work.as_array(part.of(by_rows[name])), part.of(whole[name]))


def test_a_rank_draws_no_more_than_its_part_and_a_block():
    sizes = dict(workloads.certified("gpt"), width=1024)
    name = "layer0.ffn1.weight"  # 4096 x 1024
    (run, _) = as_ranks("gpt", sizes, Layout(tensor_parallel=2), 2)
    (part,) = [each for each in workloads.parts_of(run) if each.name == name]
    initial = workloads.Initial("gpt", sizes, 3, by_rows=workloads.drawn_by_rows(run))
    size = 4 * workloads.of("gpt").parameters(sizes)[name].size
    tracemalloc.start()
    own = work.as_array(part.of(initial[name]))
    assert own.nbytes == size // 2
    assert tracemalloc.get_traced_memory()[1] < size // 2 + (1 << 21)
    tracemalloc.stop()


def test_a_large_table_is_drawn_by_rows_and_nowhere_whole(monkeypatch):
    sizes = {"vocabulary": 4 * tensor.LARGE_ROWS + 12_345, "width": 16, "layers": 1, "adam": "lazy"}
    sizes["tables"] = "replicated"
    name = "deep_embedding"
    tracemalloc.start()
    drawn = workloads.Initial("wide_deep", sizes, seed=1)[name]
    digest, ends = hashlib.sha256(), [0]
    for first, last, rows in drawn.parts():
        assert (first, len(rows)) == (ends[-1], last - first)
        digest.update(rows)
        ends.append(last)
    assert ends[-1] == sizes["vocabulary"]
    assert tracemalloc.get_traced_memory()[1] < 0.5 * 4 * 16 * sizes["vocabulary"]
    tracemalloc.stop()
    monkeypatch.setattr(tensor, "LARGE_ROWS", 1 << 30)
    whole = workloads.Initial("wide_deep", sizes, seed=1)[name]
    assert drawn.shape == whole.shape
    assert hashlib.sha256(whole).hexdigest() == digest.hexdigest()


def test_what_dali_reads_is_what_a_framework_reads_itself():
    """The same set of images, to train on and to test with: only the reader differs."""
    kinds = workloads.data("resnet50")
    own = {"sample_dali": "sample_native", "imagenet_dali": "imagenet"}
    assert {kind for kind in kinds if libraries.is_read_by_dali(kind)} == set(own)
    for kind, other in own.items():
        words = {"title": "", "description": ""}
        assert kinds[kind]._replace(**words) == kinds[other]._replace(**words)
    for name in workloads.NAMES:
        if name != "resnet50":
            assert not any(map(libraries.is_read_by_dali, workloads.data(name)))
