"""Certificates decide what a number may be used for; what is wrong with one is named."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from analysed_round import (
    NAME,
    SMALL,
    analyse,
    cell,
    merge,
    write_figure,
    write_report,
    write_table,
)
from examples import examples
from generated_round import certificate, config, write_round
from hypothesis import given
from hypothesis import strategies as st
from json_documents import one_changed

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.round import flags, metrics
from dlperf.analysis.round.certificates import key, parse
from dlperf.analysis.schema import columns, documents
from dlperf.analysis.schema.files import read_table

CASE = plan.expand(plan.load(SMALL))[0]
OK = certificate(CASE)
FAILED = certificate(CASE, said="float64-update:fc.weight")
PARTLY = certificate(plan.expand(plan.load(config(frameworks=["mindspore"])))[0])
WANTED = {name: OK[name] for name in columns.CERTIFICATE[:7]}


def mxnet_differs(case: plan.Case) -> str:
    return "float64-update:fc.weight" if case.framework == "mxnet" else "passed"


def mxnet_is_missing(case: plan.Case) -> str:
    return "missing" if case.framework == "mxnet" else "passed"


def problems(document: object) -> list[str]:
    found, wrong = parse(json.dumps(document).encode(), WANTED)
    assert (found is None) == bool(wrong)
    return wrong


def other_lock(record):
    if record["identity"]["framework"] == "mxnet":
        record["provenance"]["lock_sha256"] = "9" * 64


def other_code(record):
    if record["identity"]["framework"] == "mxnet":
        record["provenance"]["code_sha256"] = "9" * 64


@pytest.fixture
def unequal(tmp_path) -> Path:
    return write_round(tmp_path, SMALL, verdict=mxnet_differs)


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(documents.load(documents.CERTIFICATE))


@pytest.mark.parametrize("document", [OK, FAILED], ids=["passed", "failed"])
def test_whole_certificates_pass_the_check(document):
    assert problems(document) == []
    assert documents.problems(PARTLY, documents.CERTIFICATE) == []


@examples(300)
@given(st.sampled_from([OK, FAILED, PARTLY]), st.data())
def test_the_quick_check_says_what_jsonschema_says(document, data):
    document = one_changed(document, data.draw)
    found = documents.problems(document, documents.CERTIFICATE)
    assert found == documents.explain(document, documents.CERTIFICATE)


def test_a_certificate_that_disagrees_with_its_path_or_itself_is_an_error():
    assert "framework is 'jax', but its path says 'pytorch'" in problems({**OK, "framework": "jax"})
    assert "its tiers say otherwise" in problems({**FAILED, "passed": True})[0]


def test_the_merge_names_a_wrong_certificate_and_writes_nothing(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    path = results.parent / CASE.certificate("cpu")
    path.write_text(json.dumps(OK)[:-40])
    assert merge(results) == 1
    said = capsys.readouterr().err
    assert f"{CASE.certificate('cpu')}: is not JSON" in said and "Traceback" not in said
    assert not (results / "measurements.tsv.gz").exists()


@pytest.mark.parametrize(
    "old, new, said",
    [
        ('"measured": 6.2e-08', '"measured": 0.5', "tier float64-gradient: passed is true, but"),
        ('"measured": 6.2e-08', '"measured": NaN', "NaN is not a number"),
        ('"measured": 6.2e-08', '"measured": "6.2e-08"', "is not of type 'number'"),
        ('"passed": true', '"passed": true, "passed": true', 'the key "passed" stands twice'),
        ('"timed-loss"', '"timed-los"', "timed-los: is no tier of this certificate"),
    ],
)
def test_the_merge_names_the_tier_of_an_edited_certificate(tmp_path, capsys, old, new, said):
    results = write_round(tmp_path, SMALL)
    path = results.parent / CASE.certificate("cpu")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert merge(results) == 1
    printed = capsys.readouterr().err
    assert f"{path}: " in printed and said in printed and "Traceback" not in printed
    assert not (results / "certificates.tsv").exists()


def test_a_cell_is_covered_by_the_certificate_of_its_path():
    for case in plan.expand(plan.load(config(topologies=["1n1d", "1n2d", "1n4d", "2n4d"]))):
        covering = key({**case.columns("", 1), "device": "cpu"})
        assert case.certificate("cpu").endswith(f"-{covering[-1]}.json")


def test_certificates_become_a_row_a_tier(unequal):
    analyse(unequal)
    rows = read_table(unequal / "certificates.tsv")
    assert len(rows) == 2 * 12 + 2 * 11 + 1  # two ranks: no optimizer alone; compiled: a long run
    assert {row["status"] for row in rows if row["framework"] == "pytorch"} == {"passed"}
    (failed, _) = [row for row in rows if row["tier_passed"] == "false"]
    assert (failed["tier"], failed["worst_tensor"]) == ("float64-update", "fc.weight")
    assert failed["measured"] > failed["tolerance"] == 1e-6
    assert (unequal.parent / failed["certificate"]).exists()


def test_a_cell_says_what_its_certificate_says(unequal):
    rows = analyse(unequal)
    assert cell(rows, "pytorch", 2)["certificate"] == "passed"
    for devices in (1, 2):
        found = cell(rows, "mxnet", devices)
        assert found["certificate"] == "failed"
        assert found["flags"] == "not-equivalent:float64-update:fc.weight"
        assert found["median"] > 0, "the value stays"


def test_a_missing_certificate_is_said_and_nothing_crashes(tmp_path):
    results = write_round(tmp_path, SMALL, verdict=mxnet_is_missing)
    rows = analyse(results)
    found = cell(rows, "mxnet", 1)
    assert (found["certificate"], found["flags"]) == ("missing", "not-equivalent:missing")
    tiers = read_table(results / "certificates.tsv")
    assert [row["status"] for row in tiers if row["framework"] == "mxnet"] == ["missing"] * 2
    assert "✗ missing" in write_report(results).text


@pytest.mark.parametrize("change", [other_lock, other_code])
def test_a_certificate_of_another_lock_or_code_is_stale(change, tmp_path):
    results = write_round(tmp_path, SMALL, change=change)
    rows = analyse(results)
    found = cell(rows, "mxnet", 1)
    assert (found["certificate"], found["flags"]) == ("stale", "certificate-stale")
    assert cell(rows, "pytorch", 1)["certificate"] == "passed"
    said = write_report(results).text
    assert "Stale certificates: MXNet" in said
    assert "the highest median is" not in said, "one framework alone is no ranking"


def test_a_failed_certificate_does_not_get_better_by_being_stale(tmp_path):
    rows = analyse(write_round(tmp_path, SMALL, verdict=mxnet_differs, change=other_lock))
    found = cell(rows, "mxnet", 1)
    assert found["certificate"] == "failed"
    assert found["flags"].split() == [
        "not-equivalent:float64-update:fc.weight",
        "certificate-stale",
    ]


def test_every_flag_has_words(unequal):
    for row in analyse(unequal):
        for flag in row["flags"].split():
            assert flags.flag(flag)
    assert "tier shapes" in flags.flag("not-equivalent:shapes")
    assert "tensor fc.weight" in flags.flag("not-equivalent:float64-update:fc.weight")
    with pytest.raises(KeyError):
        flags.flag("unheard-of")


def test_every_form_of_a_table_marks_what_is_not_equivalent(unequal):
    rows = analyse(unequal)
    forms = write_table(unequal)
    note = "not equivalent: its certificate fails in the tier float64-update, tensor fc.weight"
    for row in rows:
        shown = f"{row['median']:.2f}"
        mark = " *not equivalent* [1]" if row["framework"] == "mxnet" else ""
        assert f"{shown} ({row['ratio']:.2f}){mark} |" in forms["md"]
        assert f">{shown}</span>" in forms["html"]
    assert forms["html"].count("✗ not equivalent") == 2
    assert note in forms["md"] and note in forms["html"]
    assert forms["tsv"].count("not-equivalent:float64-update:fc.weight") == 2


@pytest.mark.parametrize("kind", ["throughput", "scaling"])
def test_figures_mark_what_is_not_equivalent_and_say_how(tmp_path, kind):
    drawn = {}
    for name, verdict in (("equal", lambda case: "passed"), ("unequal", mxnet_differs)):
        results = write_round(tmp_path / name, SMALL, verdict=verdict)
        analyse(results)
        drawn[name], _ = write_figure(results, f"{NAME}-{kind}")
    assert "not equivalent" in drawn["unequal"] and "not equivalent" not in drawn["equal"]


def test_no_comparison_takes_in_what_is_not_equivalent(tmp_path):
    mapping = config(frameworks=["pytorch", "paddlepaddle", "mxnet"])

    def the_fastest_differs(case):
        return "timed-loss" if case.framework == "pytorch" else "passed"

    results = write_round(tmp_path, mapping, verdict=the_fastest_differs)
    said = write_report(results).text
    best = re.findall(r"the highest median is (\w+)", said)
    assert best == ["PaddlePaddle", "PaddlePaddle"]
    assert not re.search(r"The lowest is PyTorch|efficiency on [^.]*PyTorch", said)
    assert "Excluded from these comparisons, because equal work is not certified: PyTorch" in said
    assert "Not equivalent: PyTorch, fp32 b8 1n1d; PyTorch, fp32 b8 1n2d." in said
    fastest = cell(metrics.select(read_table(results / "cells.tsv")), "pytorch", 1)
    assert f"{fastest['median']:.2f}" in said, "its speed is shown all the same"


def test_the_report_shows_each_tier_beside_its_tolerance(unequal):
    said = write_report(unequal).text
    assert "2 of 4 certificates passed, 2 failed" in said
    assert "✓ 0.014 ≤ 0.1" in said
    assert "✗ 1 > 1e-06 fc.weight" in said
    assert "2026-11-21 04:57 4f2c0d9b7a1e" in said


def test_a_tier_that_could_not_run_is_no_failure_but_is_said(tmp_path):
    results = write_round(tmp_path, config(frameworks=["mindspore", "pytorch"]))
    rows = analyse(results)
    assert cell(rows, "mindspore", 1)["certificate"] == "passed"
    said = write_report(results).text
    assert "MindSpore [graph] is certified without float64-loss" in said
    assert "Not run for MindSpore [graph]: the framework has no float64" in said
    assert "4 of 4 certificates passed (2 full, 2 without float64, which shows less)." in said


def test_certificates_are_printed_a_line_each_with_the_first_tier_that_failed(unequal, capsys):
    options = ["--config", str(unequal / "config.yaml"), "--shared", str(unequal.parent)]
    assert main(["certificates", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == ["passed", "failed"] * 2
    assert lines[0] == "passed  resnet50 PyTorch, fp32, layout 1: 2026-11-21, commit 4f2c0d9b7a1e"
    assert "        float64-update: 1, at most 1e-06 (fc.weight)" in lines
