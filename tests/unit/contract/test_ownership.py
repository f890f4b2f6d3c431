"""Each copy of a tensor is there once, in parts that tile it; what is not is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf.contract import mesh, tensor
from dlperf.contract.mesh import Mesh
from dlperf.contract.ownership import FLAT, Part, as_part, divided, part_of, problems
from dlperf.contract.tensor import Tensor
from dlperf.contract.work import as_array, table

TENSORS = {
    "table": Tensor((8, 2), tensor.EMBEDDING, axis=0),
    "qkv": Tensor((12, 3), tensor.DENSE, axis=0, blocks=3),
    "inner": Tensor((3, 4), tensor.DENSE, axis=1),
    "bias": tensor.vector(3),
}


def stages(count):
    """The table on the first and the last stage, the rest on the last."""
    return {name: (0, count - 1) if name == "table" else (count - 1,) for name in TENSORS}


def owned(mesh):
    """The Parts of each rank as they should be."""
    there = stages(mesh.pipeline)
    return [
        [
            divided(name, each, place.tensor, mesh.tensor)
            for name, each in TENSORS.items()
            if place.pipeline in there[name]
        ]
        for place in map(mesh.coordinates, range(mesh.size))
    ]


def found(mesh, parts, zero_stage=0):
    return list(problems(mesh, TENSORS, stages(mesh.pipeline), parts, zero_stage))


MESHES = [Mesh(), Mesh(2), Mesh(1, 2), Mesh(2, 2), Mesh(1, 1, 2), Mesh(1, 2, 2), Mesh(2, 4, 3)]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_what_is_divided_as_it_should_be_has_no_problem(mesh):
    assert found(mesh, owned(mesh)) == []


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_parts_of_all_ranks_make_the_tensor_again(mesh):
    for name, each in TENSORS.items():
        whole = np.arange(each.size, dtype=float).reshape(each.shape)
        again = np.full(each.shape, np.nan)
        for index in range(mesh.tensor):
            part = divided(name, each, index, mesh.tensor)
            own = part.of(whole)
            assert own.shape == part.shape(each.shape)
            part.put(again, own)
        assert np.array_equal(again, whole)


def test_query_key_and_value_are_divided_each_by_itself():
    assert divided("qkv", TENSORS["qkv"], 1, 2).ranges == ((2, 4), (6, 8), (10, 12))


def test_ranks_that_do_not_divide_a_tensor_are_refused():
    with pytest.raises(ValueError, match="qkv: 3 ranks do not divide 4"):
        divided("qkv", TENSORS["qkv"], 0, 3)


def without(parts, rank, name):
    return [
        [part for part in own if (index, part.name) != (rank, name)]
        for index, own in enumerate(parts)
    ]


def changed(parts, rank, part):
    return [
        [part if (index, each.name) == (rank, part.name) else each for each in own]
        for index, own in enumerate(parts)
    ]


@pytest.mark.parametrize(
    ("mesh", "change", "said"),
    [
        (Mesh(), lambda p: without(p, 0, "bias"), "ranks 0: nobody has bias"),
        (Mesh(2), lambda p: without(p, 1, "bias"), "ranks 1: nobody has bias"),
        (Mesh(1, 2), lambda p: without(p, 1, "inner"), "nobody has values 2 to 4 of inner"),
        (
            Mesh(1, 2),
            lambda p: changed(p, 1, p[0][0]),
            "values 0 to 4 of table are there twice",
        ),
        # both replicas have the half of rank 0: each value is there as often as any other
        (
            Mesh(2, 2),
            lambda p: changed(changed(p, 1, p[0][0]), 2, p[3][0]),
            "values 0 to 4 of table are there twice",
        ),
        (Mesh(1, 2), lambda p: changed(p, 1, Part("table")), "divided in more than one way"),
        (Mesh(1, 2), lambda p: changed(changed(p, 0, Part("qkv")), 1, Part("qkv")), "2 times"),
        (Mesh(1, 1, 2), lambda p: without(p, 1, "table"), "ranks 1: nobody has table"),
        (Mesh(1, 1, 2), lambda p: [[*p[0], Part("bias")], p[1]], "rank 0: bias is not of stage 0"),
        (Mesh(), lambda p: [[*p[0], Part("more")]], "rank 0: more is no tensor of the model"),
        (Mesh(), lambda p: [[*p[0], Part("bias")]], "bias is there 2 times"),
        (Mesh(), lambda p: changed(p, 0, Part("bias", 0, ((0, 4),))), "no values 0 to 4 of 3"),
        (Mesh(), lambda p: changed(p, 0, Part("bias", 0, ((0, 2),))), "nobody has values 2 to 3"),
    ],
)
def test_what_is_missing_twice_or_elsewhere_is_said(mesh, change, said):
    first = found(mesh, change(owned(mesh)))[0]
    assert said in first


@given(st.integers(1, 7), st.integers(1, 9))
def test_rows_and_values_that_replicas_share_tile_the_tensor_whatever_their_number(ranks, rows):
    """The last ranks may have fewer, or none: ZeRO's stage 3."""
    tensors = {"weight": Tensor((rows, 2), tensor.DENSE)}
    for axis, length in ((0, rows), (FLAT, 2 * rows)):
        block = -(-length // ranks)
        parts = [
            [Part("weight", axis, ((min(length, r * block), min(length, (r + 1) * block)),))]
            for r in range(ranks)
        ]
        assert not list(problems(Mesh(ranks), tensors, {"weight": (0,)}, parts, 3))
        if ranks > 1:
            short = [*parts[:-1], []]
            wrong = list(problems(Mesh(ranks), tensors, {"weight": (0,)}, short, 3))
            last = parts[-1][0].ranges[0]
            assert bool(wrong) == (last[0] < last[1])


def test_parts_come_back_from_json():
    part = Part("qkv", 0, ((0, 2), (4, 6)))
    assert part_of(["qkv", 0, [[0, 2], [4, 6]]]) == part
    assert as_part(part) is part
    assert as_part("bias") == Part("bias") and as_part("bias").is_whole


def test_replicas_that_divide_a_table_have_one_copy_and_need_not_divide_its_rows():
    known = {"rows": Tensor((5, 2), tensor.EMBEDDING, axis=0, over=mesh.DATA)}
    grid = Mesh(data=4)
    parts = [[divided("rows", known["rows"], index, 4)] for index in range(4)]
    assert [each.ranges for (each,) in parts] == [((0, 2),), ((2, 4),), ((4, 5),), ((5, 5),)]
    assert not list(problems(grid, known, {"rows": (0,)}, parts))
    wrong = next(problems(grid, known, {"rows": (0,)}, [parts[0], *parts[:3]]))
    assert wrong == "ranks 0, 1, 2, 3: values 0 to 2 of rows are there twice"
    with pytest.raises(ValueError, match="over is 'rows', but it is one of: data, tensor, pipe"):
        Tensor((5, 2), tensor.EMBEDDING, axis=0, over="rows")


@pytest.mark.parametrize("count", [1, 2, 5, 12])
@pytest.mark.parametrize(
    "part",
    [
        Part("qkv", 0, ((2, 4), (6, 8), (10, 12))),
        Part("qkv", 1, ((1, 3),)),
        Part("qkv", FLAT, ((5, 17), (30, 31))),
        Part("qkv", 0, ((12, 12),)),
        Part("qkv"),
    ],
    ids=str,
)
def test_a_part_of_a_table_is_that_of_its_array(part, count):
    array = np.arange(36, dtype="float32").reshape(12, 3)
    by_rows = part.of(table(array.shape, lambda first, last: array[first:last], count))
    assert by_rows.shape == part.shape(array.shape)
    assert np.array_equal(as_array(by_rows), part.of(array))


def test_a_table_is_read_in_order():
    by_rows = table((4, 1), lambda first, last: np.zeros((last - first, 1)))
    with pytest.raises(ValueError, match="a Table is read in order"):
        as_array(Part("rows", 0, ((2, 4), (0, 1))).of(by_rows))


def test_flat_values_are_read_and_written_in_order():
    part, array = Part("weight", FLAT, ((1, 3),)), np.arange(6.0).reshape(2, 3)
    assert part.of(array).tolist() == [1, 2]
    part.put(array, np.array([7.0, 8.0]))
    assert array.ravel().tolist() == [0, 7, 8, 3, 4, 5]
