"""Ranks are numbered tensor, data, pipeline; groups along an axis differ in it alone."""

import pytest
from conftest import ROOT
from gpu_runs import a_run

from dlperf.contract.layout import Layout
from dlperf.contract.mesh import AXES, DATA, PIPELINE, TENSOR, Mesh

MESHES = [Mesh(), Mesh(4), Mesh(2, 2), Mesh(1, 2, 2), Mesh(2, 3, 2), Mesh(3, 1, 4)]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_each_rank_has_coordinates_of_its_own(mesh):
    places = [mesh.coordinates(rank) for rank in range(mesh.size)]
    assert len(set(places)) == mesh.size
    assert [mesh.rank(*place) for place in places] == list(range(mesh.size))


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("axis", AXES)
def test_groups_along_an_axis_have_every_rank_once(mesh, axis):
    groups = mesh.groups(axis)
    assert sorted(rank for group in groups for rank in group) == list(range(mesh.size))
    for group in groups:
        assert len(group) == getattr(mesh, axis)
        places = [mesh.coordinates(rank)._replace(**{axis: 0}) for rank in group]
        assert len(set(places)) == 1
        assert all(mesh.group(rank, axis) == list(group) for rank in group)


def test_a_tensor_group_is_next_to_each_other_and_stages_are_far_apart():
    mesh = Mesh(data=2, tensor=2, pipeline=2)
    assert mesh.groups(TENSOR) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert mesh.groups(DATA) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert mesh.groups(PIPELINE) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert mesh.groups(TENSOR, PIPELINE) == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert mesh.groups() == [(rank,) for rank in range(8)]


def test_a_side_of_nothing_is_refused():
    with pytest.raises(ValueError, match="tensor is 0: at least 1"):
        Mesh(tensor=0)


def dropout_seeds(ranks, **layout):
    return [
        a_run("pytorch", ranks=ranks, rank=rank, layout=Layout(**layout)).dropout_seed
        for rank in range(ranks)
    ]


def test_replicas_and_stages_drop_other_elements_and_a_tensor_group_the_same():
    assert dropout_seeds(4) == [1, 2, 3, 4]
    assert dropout_seeds(4, tensor_parallel=2) == [1, 1, 2, 2]
    assert dropout_seeds(8, tensor_parallel=2, pipeline_parallel=2) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_no_framework_seeds_its_dropout_by_the_number_of_a_rank():
    for folder in ("frameworks", "workloads"):
        for path in (ROOT / "scripts/dlperf" / folder).rglob("*.py"):
            assert "seed + run.rank" not in path.read_text(encoding="utf-8"), path
