"""What a workload says of itself is whole and spelled right, or facts.py cannot be imported."""

import dataclasses

import pytest

from dlperf import frameworks, workloads
from dlperf.contract.layout import SPELLED
from dlperf.contract.workload import Quality, Workload

REQUIRED = [
    field.name
    for field in dataclasses.fields(Workload)
    if field.default is field.default_factory is dataclasses.MISSING
]


def fields_of(own) -> dict:
    return {field.name: getattr(own, field.name) for field in dataclasses.fields(own)}


@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_missing_is_an_error(name):
    own = fields_of(workloads.of("bert"))
    del own[name]
    with pytest.raises(TypeError, match=name):
        Workload(**own)


@pytest.mark.parametrize("name", ["statistic", "bulit", "SPARSE", "tokens_per_samples"])
def test_what_is_misspelt_is_an_error_and_not_left_out(name):
    with pytest.raises(TypeError, match=name):
        Workload(**fields_of(workloads.of("bert")), **{name: lambda dimensions: ()})
    with pytest.raises(TypeError, match="keep"):
        Quality(**fields_of(workloads.of("bert").quality), keep=lambda *_: ())


def test_nobody_changes_it():
    with pytest.raises(dataclasses.FrozenInstanceError):
        workloads.of("bert").ways = ()


@pytest.mark.parametrize("workload", workloads.NAMES)
def test_a_workload_and_its_proof_agree(workload):
    own, proof = workloads.of(workload), workloads.proof(workload)
    sizes = workloads.certified(workload)
    assert own.has_dropout == bool(proof.dropouts)
    infers = any(workloads.implements(workload, each, "infer") for each in frameworks.NAMES)
    assert bool(own.statistics and infers) == bool(proof.neutral_statistics)
    assert set(own.sparse(sizes)) <= own.parameters(sizes).keys()
    assert bool(own.quality) == any(each.tests for each in own.data.values())
    assert set(own.ways) <= set(SPELLED)
    for key, (choice, word) in own.divided.items():
        assert key in own.dimensions and word in own.dimensions[choice].words
