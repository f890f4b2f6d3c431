"""Searches of a round: listed, checked against their tries, and shown without ranks."""

import json
from pathlib import Path

import pytest
from analysed_round import analyse, merge, write_report
from analysis_steps import everything
from generated_round import CONFIG, write_round

from dlperf import plan
from dlperf.analysis.audit import check
from dlperf.analysis.report import tables
from dlperf.analysis.round import names, searches
from dlperf.analysis.schema.files import AnalysisError, read_table
from dlperf.contract import searched

NAME = "resnet50-train-fp32-bmax"
WITH_MAX = {
    **CONFIG,
    "frameworks": ["pytorch", "mxnet", "oneflow"],
    "memory_limit": "4 GB",
    "workloads": {
        "resnet50": {**CONFIG["workloads"]["resnet50"], "batch_sizes": {"fp32": [8, "max"]}}
    },
}
NOTHING = "not even batch_size 1 fits within memory_limit (4 GB): rank 0: out of memory"


def fate(case: plan.Case, repetition: int) -> tuple[str, str]:
    return ("oom", NOTHING) if case.framework == "oneflow" and case.searched else ("ok", "")


@pytest.fixture
def results(tmp_path) -> Path:
    return write_round(tmp_path, WITH_MAX, fate)


def a_search(results: Path, framework: str = "pytorch") -> Path:
    cases = plan.expand(plan.load(results / "config.yaml"))
    case = next(each for each in searches.asked(cases) if each.framework == framework)
    return results / searched.path_of(case)


def test_the_table_has_each_frameworks_batch_throughput_and_memory(results):
    own = tables.select(analyse(results), NAME)
    made = tables.build(NAME, own)
    assert made.series == ["Largest batch size", "Throughput", "Peak resident memory per device"]
    assert [row[0] for row in made.rows][:2] == ["PyTorch, 1n1d", "PyTorch, 1n2d"]
    sizes = {row[0]: row[2][0].value for row in made.rows}
    assert (sizes["PyTorch, 1n1d"], sizes["MXNet [static], 1n1d"]) == ("512", "432")
    assert made.rows[0][2][2].value.endswith(" GB")  # as the limit
    assert "the largest batch size that fits into 4 GB per device" in made.lines[0]
    failed = dict((row[0], row[2]) for row in made.rows)["OneFlow, 1n1d"]
    assert [entry.value for entry in failed] == ["", "out of memory", ""]
    assert NOTHING in made.notes[0]


def test_the_largest_are_not_ranked_and_have_no_speed_up_as_their_sizes_differ(results):
    rows = analyse(results)
    largest = [row for row in rows if row["table"] == NAME]
    assert largest
    assert {(row["rank"], row["ratio"], row["efficiency"]) for row in largest} == {(None,) * 3}
    assert all(row["rank"] for row in rows if row["table"] == "resnet50-train-fp32-b8")
    assert tables.build(NAME, largest).ranking == []


def test_every_try_is_a_row(results):
    assert merge(results) == 0
    rows = [row for row in read_table(results / names.SEARCHES) if row["framework"] == "pytorch"]
    first = [row for row in rows if row["case"] == rows[0]["case"]]
    assert [row["try"] for row in first] == list(range(1, len(first) + 1))
    assert {row["largest"] for row in first} == {512}
    assert json.loads(a_search(results).read_text())["value"] == 512


def test_the_report_shows_each_search_with_all_its_tries(results):
    page = write_report(results)
    assert "searches" in page.ids
    assert "512; the next size runs out of memory" in page.text
    assert NOTHING in page.text
    assert page.text.count("a few steps") > 20


def test_a_round_without_a_search_has_no_such_section(tmp_path):
    assert "searches" not in write_report(write_round(tmp_path)).ids


def test_an_audit_makes_searches_again_and_covers_their_files(results, tmp_path, capsys):
    everything(results)
    check.audit(results, tmp_path / "audit.tsv")
    assert "Nothing differs." in capsys.readouterr().out
    listed = (results / "SHA256SUMS").read_text()
    assert "  searches/resnet50/pytorch/" in listed

    path = a_search(results)
    document = json.loads(path.read_text())
    document["tries"][0]["seconds"] = 1.0
    path.write_text(json.dumps(document))
    with pytest.raises(AnalysisError):
        check.audit(results, tmp_path / "audit.tsv")
    assert f"changed search: {path.relative_to(results)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda found: found.update(value=520), "value is 520, but its tries say 512"),
        (lambda found: found["tries"].pop(), "its tries are not those of this method"),
        (
            lambda found: found["settings"].update(memory_limit_bytes=8 * 10**9),
            "settings are others",
        ),
        (lambda found: found["identity"].update(nodes=2), "identity is another than its path says"),
    ],
)
def test_a_search_that_is_not_what_it_says_stops_the_merge(results, capsys, change, told):
    path = a_search(results)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    assert merge(results) == 1
    assert told in capsys.readouterr().err


def test_records_without_their_search_are_named(results, capsys):
    a_search(results).unlink()
    assert merge(results) == 1
    assert "its size is not known: there is no" in capsys.readouterr().err


def test_a_record_of_another_size_than_was_found_is_named(results, capsys):
    path = next((results / "runs/resnet50/pytorch").glob("*bmax*/rep1.json"))
    record = json.loads(path.read_text())
    record["identity"]["batch_size"] = 504
    path.write_text(json.dumps(record))
    assert merge(results) == 1
    assert "identity.batch_size is 504, but its path says 512" in capsys.readouterr().err
