"""Steps that were compiled or driven for a GPU, in a report and in the documentation."""

import re

import pytest
from analysed_round import SMALL, analyse, write_report
from generated_round import config, write_round

from dlperf import frameworks, plan, workloads
from dlperf.analysis.report import programs
from dlperf.analysis.schema.files import read_table

DOCUMENT = programs.PROGRAMS.parents[1] / "docs/gpu-results.md"
ROWS = [{name: str(value) for name, value in row.items()} for row in read_table(programs.PROGRAMS)]
KEYS = ("framework", "workload", "precision", "compiler", "layout", "batch_size", "dimensions")
#: Framework -> the heading of a column in its table of the documentation -> ours.
SHOWN = {
    "jax": {
        **{"kernels": "kernels", "GB": "gb", "least": "least_gb", "separate": "separate_gb"},
        **{"temporary GB": "memory_gb", "exchanges": "exchanges", "waited for": "waited_for"},
    },
    "pytorch": {
        **{"kernels": "kernels", "launches": "launches", "peak GB": "memory_gb"},
        **{"exchanges": "exchanges", "behind": "waited_for"},
    },
}


def documented(framework: str) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of a framework's table in docs/gpu-results.md, by KEYS."""
    name = {"jax": "JAX", "pytorch": "PyTorch"}[framework]
    pattern = rf"<!-- table of {name} -->\n(.*?)<!-- /table of {name} -->"
    head, _, *lines = re.search(pattern, DOCUMENT.read_text(), re.S)[1].splitlines()
    titles = [each.strip() for each in head.strip("|").split("|")]
    found = {}
    for line in lines:
        cells = [each.strip() for each in line.removeprefix("|").removesuffix("|").split("|")]
        row = {"framework": framework, "compiler": "xla", **dict(zip(titles, cells, strict=True))}
        row["batch_size"] = row["batch"]
        found[tuple(row[key] for key in KEYS)] = row
    return found


@pytest.mark.parametrize("framework", SHOWN)
def test_the_documentation_has_the_same_steps_and_numbers(framework):
    own = {tuple(row[key] for key in KEYS): row for row in ROWS if row["framework"] == framework}
    there = documented(framework)
    assert there and own.keys() == there.keys()
    for key, row in own.items():
        for title, name in SHOWN[framework].items():
            assert row[name] == there[key][title], (key, title)


def test_each_step_is_of_the_project_and_stands_once():
    keys = [tuple(row[key] for key in KEYS) for row in ROWS]
    assert len(keys) == len(set(keys))
    for row in ROWS:
        assert row["workload"] in workloads.NAMES
        assert row["compiler"] in frameworks.of(row["framework"]).compilers
        assert row["precision"] in ("fp32", "tf32", "amp") and int(row["kernels"]) > 0


def test_a_report_of_a_round_on_gpus_has_them_and_says_that_they_are_not_measured(tmp_path):
    results = write_round(tmp_path, {**SMALL, "device": "cuda"})
    analyse(results)
    said = write_report(results).text
    assert "What steps for a GPU have in them Compiled or driven, not measured." in said
    (own,) = programs.of_round(plan.load({**SMALL, "device": "cuda"}))
    assert {row["framework"] for row in own.rows} == {"pytorch"}  # MXNet has none
    assert {row["precision"] for row in own.rows} == {"fp32"}
    assert all(str(row["kernels"]) in said for row in own.rows)


def test_a_report_of_a_round_on_cpus_has_none(tmp_path):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    assert "What steps for a GPU" not in write_report(results).text


@pytest.mark.parametrize(
    ("changes", "precisions"),
    [
        ({}, {"fp32"}),
        ({"resnet50_precisions": ["amp", "tf32"]}, {"amp", "tf32"}),
        ({"resnet50_precisions": ["amp_fp16"]}, {"amp"}),
        ({"frameworks": ["mxnet"]}, set()),
        ({"device": "cpu"}, set()),
    ],
)
def test_rows_are_those_of_what_the_round_asks_for(changes, precisions):
    sizes = dict.fromkeys(changes.get("resnet50_precisions", ["fp32"]), [8])
    asked = config(**{"device": "cuda", "resnet50_batch_sizes": sizes, **changes})
    found = programs.of_round(plan.load(asked))
    assert {row["precision"] for own in found for row in own.rows} == precisions
    assert {own.workload for own in found} == ({"resnet50"} if precisions else set())
