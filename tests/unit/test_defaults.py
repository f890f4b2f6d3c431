"""Nothing that decides what is proved or measured is read with a default, or guessed from a name.

`getattr` with a default, and `hasattr`, take a misspelt name for one that is not there: a tier
less, another setting. What a workload, a proof, a reference, a framework or a scenario hands over
is typed (`scripts/dlperf/contract/`) and read by its name. What stays reads objects of others; the
tables below say which.

A tensor's kind (`contract/tensor.py`) decides how it is laid out, read and started: a part of its
name (`"embedding" in name`) decides for a workload's own names alone, and only in its folder.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf import frameworks, scenarios, workloads
from dlperf.contract.run import Run

PACKAGE = ROOT / "scripts/dlperf"
FILES = sorted(PACKAGE.rglob("*.py"))
#: File and what is read of it -> what that is. A framework's own files are below.
OF_OTHERS = {
    ("contract/terminal.py", "stream"): "a stream that somebody put in another's place",
    ("contract/storage.py", "error"): "an exception",
    ("measure/code.py", "tokenize"): "a module of Python, older or newer",
    ("plan/sections.py", "differing"): "a section of a config, whose keys pydantic checks",
    ("plan/sections.py", "self.of(scenario)"): "a section of a config, whose keys pydantic checks",
    ("plan/data.py", "prepared"): "an entry of config/data.yaml, whose keys pydantic checks",
    ("prepare/sources.py", "made"): "an entry of config/data.yaml, whose keys pydantic checks",
    ("analysis/__main__.py", "asked"): "what argparse read; some commands have no --out",
    ("inside_snakemake.py", "DAG"): "of Snakemake",
    ("inside_snakemake.py", "handler"): "of Snakemake",
    ("inside_snakemake.py", "said.get('event')"): "of Snakemake",
}
#: What a framework's package and its pages read of its own tensors and optimisers -> what it is.
OF_FRAMEWORKS = {
    "shard": "a tensor that is sharded has it",
    "graph_options": "an optimiser that tells nn.Graph more than its settings has it",
    "forget": "an optimiser with state beside the framework's own has it",
    "lazy": "Wide & Deep's own optimiser of TensorFlow has it",
    "optimizer": "DeepSpeed's wrappers of an optimizer have it",
    "loss_scale_config": "DeepSpeed has it in stage 0",
    "loss_scaler": "DeepSpeed has it in other stages, in float16",
    "set_rate": "an optimiser whose rate is no plain setting has it",
    "momentum": "of MXNet: Adam has none",
    "num_batches_tracked": "a batch-norm of PyTorch or OneFlow has it",
}


def own_of_a_framework(path: Path) -> bool:
    """Whether a file imports a framework: a framework's package, or a page of a workload."""
    pages = path.stem in frameworks.NAMES and path.parent.parent == PACKAGE / "workloads"
    return pages or path.parent.parent == PACKAGE / "frameworks"


def defaults(source: str) -> Iterator[tuple[str, str, int]]:
    """What is read with a default: of what, by which name, in which line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, count = node.func.id, len(node.args)
            if (name == "getattr" and count > 2) or name == "hasattr":
                yield ast.unparse(node.args[0]), ast.unparse(node.args[1]).strip("'"), node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_that_decides_is_read_with_a_default(path: Path):
    own = str(path.relative_to(PACKAGE))
    for of, name, line in defaults(path.read_text(encoding="utf-8")):
        allowed = name in OF_FRAMEWORKS if own_of_a_framework(path) else (own, of) in OF_OTHERS
        assert allowed, f"{path}:{line}: {of}.{name}: give it a type (scripts/dlperf/contract)"


def test_every_exception_is_still_used():
    read = {path: list(defaults(path.read_text(encoding="utf-8"))) for path in FILES}
    others = {(str(path.relative_to(PACKAGE)), of) for path in FILES for of, *_ in read[path]}
    assert set(OF_OTHERS) <= others
    names = {name for path in FILES if own_of_a_framework(path) for _, name, _ in read[path]}
    assert names == set(OF_FRAMEWORKS)


def test_which_calls_have_a_default():
    source = (
        'getattr(one, "a")\ngetattr(own.two, "b", 1)\nhasattr(load(x), key)\nother.hasattr(1)\n'
    )
    assert list(defaults(source)) == [("own.two", "b", 2), ("load(x)", "key", 3)]


@pytest.mark.parametrize("name", scenarios.NAMES)
def test_a_scenario_says_all_of_itself(name):
    own = scenarios.load(name)
    assert issubclass(own.RUN, Run) and isinstance(own.CURVED, bool)
    assert own.MARKED.keys() <= scenarios.metrics(name).keys()
    assert ("points" in vars(own)) == own.CURVED
    assert not own.MARKED or callable(own.all_seconds)


@pytest.mark.parametrize("workload", workloads.NAMES)
def test_a_reference_is_handed_over_as_one(workload):
    """Read as text: it imports PyTorch."""
    source = (PACKAGE / "workloads" / workload / "reference.py").read_text(encoding="utf-8")
    last = ast.parse(source).body[-1]
    assert isinstance(last, ast.Assign) and ast.unparse(last).startswith("REFERENCE = ")
    given = {each.arg for each in last.value.keywords}
    own = workloads.of(workload)
    assert ("statistics" in given) == bool(own.statistics)
    assert not own.quality or given & {"outputs", "evaluated"}


#: Packages that read what a scenario's module says of itself; those before it cannot import it.
AFTER_SCENARIOS = ("plan", "search", "analysis")


def named(source: str, word: str) -> Iterator[int]:
    """The lines that compare something with a word, or look for the word in something."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            sides = node.args if node.func.attr in ("startswith", "endswith") else []
        else:
            continue
        words = (
            each for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)
        )
        if any(isinstance(each.value, str) and word in each.value.split("-") for each in words):
            yield node.lineno


@pytest.mark.parametrize("package", AFTER_SCENARIOS)
def test_scenarios_with_evaluations_are_found_by_what_they_say_of_themselves(package: str):
    (name,) = filter(scenarios.curved, scenarios.NAMES)
    for path in sorted((PACKAGE / package).rglob("*.py")):
        lines = list(named(path.read_text(encoding="utf-8"), name))
        assert not lines, f"{path}:{lines}: ask scenarios.curved(…)"


def test_which_lines_find_a_scenario_by_its_name():
    source = (
        'a == "quality"\nb["quality"]\n"quality" in c\nd in ("train", "quality")\n'
        'e.startswith("quality-")\nf(scenario="quality")\ng != "other quality"\n'
    )
    assert list(named(source, "quality")) == [1, 3, 4, 5]


#: Packages that know no workload's names.
NAMELESS = ("contract", "frameworks", "certify", "measure", "scenarios")
#: What stands for a tensor's canonical name in code.
NAMES = {"name", "tensor", "key", "part.name", "each.name"}
#: File and function -> why it reads a part of a name.
READ_BY_NAME = {
    ("measure/by_hand.py", "_unknown"): "the name is that of an option",
    ("measure/by_hand.py", "_metavar"): "the key is that of an option",
    ("frameworks/jax/parallel.py", "_in_model"): "numbers the layers of a stage as the model does",
}


def guesses(source: str) -> Iterator[tuple[str, str, int]]:
    """Where a part of a tensor's name decides: in which function, by what, in which line."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            named, says = "", ""
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                says, named = ast.unparse(node.left), ast.unparse(node.comparators[0])
                if not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
                    continue
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr not in ("endswith", "startswith"):
                    continue
                says, named = node.func.attr, ast.unparse(node.func.value)
            if named in NAMES:
                yield function.name, says, node.lineno


@pytest.mark.parametrize("package", NAMELESS)
def test_a_tensors_kind_decides_and_never_a_part_of_its_name(package: str):
    for path in sorted((PACKAGE / package).rglob("*.py")):
        for function, says, line in guesses(path.read_text(encoding="utf-8")):
            own = (str(path.relative_to(PACKAGE)), function)
            assert own in READ_BY_NAME, f"{path}:{line}: {says}: ask for the Tensor's kind"


def test_every_reading_of_a_name_is_still_there():
    read = {
        (of, function)
        for of, _ in READ_BY_NAME
        for function, *_ in guesses((PACKAGE / of).read_text(encoding="utf-8"))
    }
    assert set(READ_BY_NAME) <= read


def test_which_lines_guess_from_a_name():
    source = (
        "def one(name, names):\n"
        '    found = "bias" in names\n'
        '    return "norm" in name and name.endswith("weight")\n'
        "def two(part):\n"
        '    return ".qkv." not in part.name, part in {}\n'
    )
    assert sorted(guesses(source)) == [
        ("one", "'norm'", 3),
        ("one", "endswith", 3),
        ("two", "'.qkv.'", 5),
    ]
