"""A tensor says what it is; what contradicts itself is refused."""

import pytest

from dlperf import workloads
from dlperf.contract import tensor
from dlperf.contract.tensor import Tensor, dense, norm, shapes


def test_a_dense_layers_bias_is_divided_with_its_outputs_alone():
    by_outputs = dict(dense("a", 4, 6, axis=0, blocks=3))
    assert shapes(by_outputs) == {"a.weight": (6, 4), "a.bias": (6,)}
    assert (by_outputs["a.bias"].axis, by_outputs["a.bias"].blocks) == (0, 3)
    by_inputs = dict(dense("a", 4, 6, axis=1))
    assert (by_inputs["a.weight"].axis, by_inputs["a.bias"].axis) == (1, None)


def test_matrices_are_no_vectors_and_large_tables_are_read_by_rows():
    assert not any(each.is_matrix for _, each in norm("a", 4))
    assert Tensor((2, 3), tensor.DENSE).is_matrix and Tensor((2, 3), tensor.DENSE).size == 6
    many = tensor.LARGE_ROWS + 1
    assert Tensor((many, 2), tensor.EMBEDDING).is_large
    assert not Tensor((many, 2), tensor.DENSE).is_large
    assert not Tensor((many - 1, 2), tensor.EMBEDDING).is_large


def test_an_unknown_kind_and_unequal_blocks_are_refused():
    with pytest.raises(ValueError, match="kind is 'matrix', but it is one of: kernel"):
        Tensor((2, 3), "matrix")
    with pytest.raises(ValueError, match="4 rows are not 3 equal blocks"):
        Tensor((4, 3), tensor.DENSE, axis=0, blocks=3)


class Rank:
    """Of a Run, what says which model it trains."""

    def __init__(self, workload):
        self.workload, self.dimensions = workload, workloads.certified(workload)


@pytest.mark.parametrize("workload", workloads.NAMES)
def test_kinds_of_every_workload_fit_their_shapes(workload):
    own, sizes = workloads.of(workload), workloads.certified(workload)
    lengths = {tensor.KERNEL: 4, tensor.DENSE: 2, tensor.EMBEDDING: 2}
    lengths.update({tensor.SCALE: 1, tensor.VECTOR: 1})
    for name, each in own.parameters(sizes).items():
        assert len(each.shape) == lengths[each.kind], name
        own_name = name.rpartition(".")[2].rstrip("0123456789")
        assert own_name.endswith(("bias", "slope")) == (each.kind == tensor.VECTOR), name
        rows = name.endswith(("embedding", "centres"))
        assert rows == (each.kind == tensor.EMBEDDING), name
    for name, each in (own.statistics(sizes) if own.statistics else {}).items():
        assert each.kind == (tensor.VARIANCE if name.endswith("variance") else tensor.MEAN)


def test_running_statistics_start_at_zero_and_one():
    start = workloads.running_at_start(Rank("resnet50"))
    assert {name: set(each.tolist()) for name, each in list(start.items())[:2]} == {
        "bn1.mean": {0.0},
        "bn1.variance": {1.0},
    }
    assert workloads.running_at_start(Rank("bert")) == {}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_tensor_has_a_stage_and_a_tied_table_two(count):
    sizes = dict(workloads.certified("gpt"), layers=4)
    stages = workloads.stages("gpt", sizes, count)
    assert list(stages) == list(workloads.of("gpt").parameters(sizes))
    assert {stage for there in stages.values() for stage in there} == set(range(count))
    tied = [name for name, there in stages.items() if len(set(there)) > 1]
    assert tied == (["word_embedding"] if count > 1 else [])
