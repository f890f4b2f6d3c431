"""What a framework can do is whole, spelled right and free of contradictions, or it is an error."""

import dataclasses
import sys

import pytest
from known_framework import known_framework

from dlperf import frameworks
from dlperf.contract.framework import Framework
from dlperf.contract.layout import SPELLED

REQUIRED = [
    field.name
    for field in dataclasses.fields(Framework)
    if field.default is field.default_factory is dataclasses.MISSING
]
THERE = [name for name in frameworks.NAMES if frameworks.find(name)]


def fields_of(own: Framework) -> dict:
    return {field.name: getattr(own, field.name) for field in dataclasses.fields(own)}


@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_missing_is_an_error(name):
    own = fields_of(frameworks.of("pytorch"))
    del own[name]
    with pytest.raises(TypeError, match=name):
        Framework(**own)


@pytest.mark.parametrize("name", ["keep_losses", "SHARDS_TABLES", "one_rank_per_node", "halves"])
def test_what_is_misspelt_is_an_error_and_not_left_out(name):
    with pytest.raises(TypeError, match=name):
        Framework(**fields_of(frameworks.of("pytorch")), **{name: False})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"compilers": {"graph": ""}}, "compilers: 'none' is missing"),
        (
            {"default_compiler": {"cpu": "none"}},
            "default_compiler: 'cuda' is missing, or no device",
        ),
        ({"half": {"cpu": (), "cuda": (), "gpu": ()}}, "half: 'gpu' is missing, or no device"),
        (
            {"default_compiler": {"cpu": "none", "cuda": "grahp"}},
            "default_compiler: 'grahp' is none of its compilers",
        ),
        ({"float64_compilers": ("xla",)}, "float64_compilers: 'xla' is none of its compilers"),
        ({"ways": ("tensor_paralel",)}, "ways: 'tensor_paralel' is no field of a layout"),
        ({"ways": ("accumulation",)}, "ways: 'accumulation' is no field of a layout"),
    ],
)
def test_what_contradicts_itself_is_an_error(changes, problem):
    with pytest.raises(ValueError, match=f"^Mine: {problem}"):
        dataclasses.replace(known_framework("Mine", ["graph"]), **changes)


def test_nobody_changes_it():
    with pytest.raises(dataclasses.FrozenInstanceError):
        frameworks.of("pytorch").shards_tables = False


@pytest.mark.parametrize("name", THERE)
def test_a_package_says_it_without_its_framework(name):
    assert isinstance(frameworks.of(name), Framework)
    assert frameworks.of(name) is frameworks.find(name)
    assert name not in sys.modules and f"dlperf.frameworks.{name}.training" not in sys.modules


def test_a_framework_that_is_only_a_name_can_do_nothing():
    assert frameworks.find("flax") is None
    with pytest.raises(ModuleNotFoundError):
        frameworks.of("flax")


def test_ways_are_the_fields_of_a_layout_beside_accumulation():
    ways = tuple(name for name in SPELLED if name != "accumulation")
    assert dataclasses.replace(known_framework("Mine"), ways=ways).ways == ways
