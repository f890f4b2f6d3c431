"""Records are believed only when they are whole and are what their path says."""

import copy
import json

import jsonschema
import pytest
from analysed_round import merge
from generated_round import config, record, write_round
from hypothesis import given, settings
from hypothesis import strategies as st
from json_documents import places, values

from dlperf import plan
from dlperf.analysis.round.records import parse
from dlperf.analysis.schema import documents

SMALL = config(frameworks=["pytorch"], repetitions=2)
CONFIG = plan.load(SMALL)
CASE = plan.expand(CONFIG)[1]
OK = record(CASE, CONFIG, 1)
CRASHED = record(CASE, CONFIG, 1, status="crashed", reason="exit status 1")


def problems(document: object) -> list[str]:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    found, wrong = parse(content, plan.document(CASE, CONFIG, 1), CASE)
    assert (found is None) == bool(wrong)
    return wrong


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(documents.load(documents.RECORD))


@pytest.mark.parametrize("document", [OK, CRASHED], ids=["ok", "crashed"])
def test_whole_records_pass(document):
    assert problems(document) == []


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([OK, CRASHED]), st.data())
def test_the_quick_check_says_what_jsonschema_says(document, data):
    document = copy.deepcopy(document)
    *parents, last = data.draw(st.sampled_from([path for path in places(document) if path]))
    holder = document
    for key in parents:
        holder = holder[key]
    if data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(values)
    assert documents.problems(document, documents.RECORD) == documents.explain(
        document, documents.RECORD
    )


def test_a_loss_that_is_no_number_any_more_is_a_result():
    document = copy.deepcopy(OK)
    document["steps"]["loss"][-1] = float("nan")
    assert documents.problems(document, documents.RECORD) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (json.dumps(OK).encode()[:-300], "half-written"),
        (b'{"tool": "other"}', "'schema' is a required property"),
        (b"[1, 2]", "is not of type 'object'"),
    ],
)
def test_what_is_no_record_is_named_for_what_it_is(content, said):
    assert any(said in problem for problem in problems(content))


@pytest.mark.parametrize(
    ("key", "value"),
    [("round", "other"), ("batch_size", 16), ("devices_per_node", 1), ("image_size", 224)],
)
def test_a_record_that_disagrees_with_its_path_is_an_error(key, value):
    document = copy.deepcopy(OK)
    document["identity"][key] = value
    assert any(f"identity.{key} is {value!r}, but its path says" in p for p in problems(document))


def test_a_record_of_other_settings_is_an_error():
    document = copy.deepcopy(OK)
    document["settings"]["measured_steps"] = 20
    assert any("measured_steps=20" in problem for problem in problems(document))


def test_a_record_must_not_contradict_itself():
    for key, value in (("samples", 1), ("window", OK["window"][:1])):
        assert len(problems({**OK, key: value})) == 1
    backwards = copy.deepcopy(OK)
    backwards["window"][0]["end"] = 0.0
    assert "ends before it starts" in problems(backwards)[0]
    short = copy.deepcopy(OK)
    short["steps"]["seconds"].pop()
    assert "9 values for 10" in problems(short)[0]


def test_the_merge_names_every_wrong_file_and_writes_nothing(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    folder = results / "runs" / CASE.folder
    (folder / "rep1.json").write_text('{"schema": "dlperf.re')
    (folder / "rep2.json").write_text(json.dumps(OK))
    assert merge(results) == 1
    said = capsys.readouterr().err
    assert "rep1.json: is not JSON" in said
    assert "rep2.json: identity.repetition is 1, but its path says 2" in said
    assert "Traceback" not in said
    assert not (results / "measurements.tsv.gz").exists()


def test_records_that_the_plan_does_not_ask_for_are_left_out_and_named(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    (results / "runs" / CASE.folder / "rep9.json").write_text(json.dumps(OK))
    assert merge(results) == 0
    assert f"runs/{CASE.folder}/rep9.json: not a repetition" in capsys.readouterr().err


def test_a_wrong_config_is_one_message(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    (results / "config.yaml").write_text("round: 3\n")
    assert merge(results) == 1
    assert "Traceback" not in capsys.readouterr().err
