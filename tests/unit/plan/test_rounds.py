"""The rounds in config/: what each plans, and what it cannot; rounds.tsv beside this file and
docs/published-rounds.md say it. `python -m round_tables` (tests/support) writes both anew."""

import os

import pytest
import yaml
from round_files import ROOT, ROUNDS, name_of
from round_tables import DOCUMENT, ROWS, planned, read, with_tables
from snakemake.utils import update_config

from dlperf import workloads
from dlperf.plan import ConfigError, expand, load
from dlperf.plan.__main__ import main
from dlperf.plan.read import merged
from dlperf.prepare import sources

#: Those that a round has for the reason alone that stands in its report.
NEVER_RUN = {("dlperf-v1-wide-deep", "mindspore")}


@pytest.mark.parametrize("paths", ROUNDS, ids=name_of)
def test_a_round_plans_what_the_table_says(paths):
    found = planned(paths)
    assert found == [row for row in read(ROWS) if row["round"] == found[0]["round"]]


def test_the_table_has_no_round_that_is_gone():
    names = [load(paths).round for paths in ROUNDS]
    assert {row["round"] for row in read(ROWS)} == set(names)
    assert len(set(names)) == len(names)


def test_the_documentation_has_the_same_tables():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_tables(text) == text


def test_each_framework_of_a_round_runs_something_in_it():
    table = read(ROWS)
    runs = {(row["round"], row["framework"]) for row in table if not row["unsupported"]}
    assert {(row["round"], row["framework"]) for row in table} - runs == NEVER_RUN


MERGED = [paths for paths in ROUNDS if paths[1:]]


@pytest.mark.parametrize("paths", MERGED, ids=name_of)
def test_a_file_over_a_round_is_another_round_and_says_how_it_is_called(paths):
    base, over = paths
    config, before = load(paths), load(base)
    assert config.round == name_of(paths)
    assert {case.folder for case in expand(config)} != {case.folder for case in expand(before)}
    called = " ".join(str(path.relative_to(ROOT)) for path in paths)
    assert f"--configfile {called}`" in " ".join(over.read_text().replace("\n# ", " ").split())
    with pytest.raises(ConfigError, match="device: is missing"):
        load(over)


@pytest.mark.parametrize("paths", MERGED, ids=name_of)
def test_what_a_file_asks_for_is_asked_for_in_the_whole(paths):
    """Lists of the base file that it does not name must not add to it, nor take its place."""
    over = yaml.safe_load(paths[1].read_text())
    config = load(paths).model_dump()

    def holds(asked, found):
        for key, value in asked.items():
            if isinstance(value, dict):
                holds(value, found[key])
            elif key != "also":  # whose entries have all keys there
                assert found[key] == value, key

    holds(over, config)


@pytest.mark.parametrize("paths", MERGED, ids=name_of)
def test_several_files_are_merged_as_snakemake_merges_them(paths):
    files = [yaml.safe_load(path.read_text()) for path in paths]
    by_snakemake = {}
    for each in files:
        update_config(by_snakemake, each)
    assert merged(*[yaml.safe_load(path.read_text()) for path in paths]) == by_snakemake
    assert load(by_snakemake) == load(paths)


@pytest.mark.parametrize(
    "over",
    [
        {},
        {"a": 1},
        {"a": {}},
        {"a": {"b": 1}},
        {"a": {"c": {}}},
        {"a": None},
        {"a": []},
        {"a": {"b": {"d": 1}}, "e": {"f": {}}},
    ],
)
@pytest.mark.parametrize(
    "base", [{}, {"a": 2}, {"a": {"b": 2, "c": [1]}}, {"a": [1, 2]}, {"a": None}, {"a": {}}]
)
def test_whatever_stands_there_is_merged_as_snakemake_merges_it(base, over):
    expected = yaml.safe_load(yaml.safe_dump(base))
    update_config(expected, over)
    before = yaml.safe_dump([base, over])
    assert merged(base, over) == expected
    assert yaml.safe_dump([base, over]) == before


def test_the_plan_takes_several_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    over = tmp_path / "mine.yaml"
    section = "{data: [synthetic], also: []}"
    over.write_text(f"round: mine\ntopologies: [1n1d]\nworkloads: {{resnet50: {section}}}\n")
    files = ["--config", "config/rounds/dlperf-v1.yaml", os.fspath(over)]
    assert main(["tsv", *files]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert rows and not any("imagenet" in row or "4n8d" in row for row in rows)
    over.write_text("round: mine\nworkloads: {resnet50: {precisions: [fp32, fp33]}}\n")
    assert main(["show", *files]) == 1
    said = capsys.readouterr().err
    key = "workloads.resnet50.precisions[1]: 'fp33' is not a precision"
    assert said.startswith(f"config/rounds/dlperf-v1.yaml, {over}: {key}")
    over.write_text("round: [mine\n")
    assert main(["show", *files]) == 1
    assert capsys.readouterr().err.startswith(f"{over}: line 2, column 1: not YAML")


def test_all_data_that_are_fetched_are_those_of_some_round():
    prepared = sources.load_all(ROOT / "config/data.yaml").prepared
    fetched = {
        name.replace("-", "_")
        for kind in ("images", "text", "clicks", "questions")
        for name, each in getattr(prepared, kind).items()
        if each.source and not name.endswith("-test")
    }
    assert fetched == {"imagenet", "wikipedia", "criteo", "squad", "squad2"}
    kinds = {kind for name in workloads.NAMES for kind in workloads.data(name)}
    asked = {case.data for paths in ROUNDS for case in expand(load(paths)) if not case.unsupported}
    assert fetched <= kinds & asked


def test_a_round_that_needs_data_says_so_in_its_first_lines():
    words = {
        "imagenet": "ImageNet",
        "wikipedia": "Wikipedia",
        "criteo": "Criteo",
        "squad": "SQuAD",
        "squad2": "v2.0",
    }
    for paths in ROUNDS:
        head, _, _ = paths[-1].read_text().partition("\nround:")
        for kind in {case.data for case in expand(load(paths))} & words.keys():
            assert words[kind] in head and "needs" in head and "docs/data.md" in head, paths
