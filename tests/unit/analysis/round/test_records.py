"""Records are believed only when they are whole and are what their path says."""

import copy
import json
from functools import partial
from pathlib import Path

import jsonschema
import pytest
from analysed_round import merge
from examples import examples
from generated_round import config, record, write_round
from hypothesis import given
from hypothesis import strategies as st
from json_documents import damaged, one_changed

from dlperf import plan
from dlperf.analysis.round.merge import _of_case
from dlperf.analysis.round.records import parse, read_round
from dlperf.analysis.schema import columns, documents
from dlperf.analysis.schema.files import AnalysisError, Row

SMALL = config(frameworks=["pytorch"], repetitions=2)
CONFIG = plan.load(SMALL)
CASE = plan.expand(CONFIG)[1]
OK = record(CASE, CONFIG, 1)
CRASHED = record(CASE, CONFIG, 1, status="crashed", reason="exit status 1")
ONE = plan.load(config(frameworks=["pytorch"], repetitions=1))
ON_GPU = plan.load(config(device="cuda", frameworks=["pytorch"], repetitions=1))
GPU_CASE = plan.expand(ON_GPU)[0]
GPU = record(GPU_CASE, ON_GPU, 1)
#: Columns that no check could hold to anything: what a machine said of itself, and the file itself.
FREE = {*columns.HOST, *columns.PROVENANCE, "record_sha256", "reason", "gpu", "gpu_driver"}
FREE |= {"throttled", "peak_precision"}  # by what a process said of TF32


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


@examples(400)
@given(st.sampled_from([OK, CRASHED]), st.data())
def test_the_quick_check_says_what_jsonschema_says(document, data):
    document = one_changed(document, data.draw)
    found = documents.problems(document, documents.RECORD)
    assert found == documents.explain(document, documents.RECORD)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_what_is_no_number_is_refused(number):
    content = json.dumps(OK).replace(str(OK["steps"]["loss"][-1]), number)
    (said,) = problems(content.encode())
    assert "is not a number" in said or "too large" in said


def changed(*path, **changes) -> dict:
    """The ok record with other values at a place."""
    document = copy.deepcopy(OK)
    holder = document
    for key in path:
        holder = holder[key]
    holder.update(changes)
    return document


def squeezed() -> dict:
    """A record whose windows are a tenth as long as its steps, stamps included."""
    document = copy.deepcopy(OK)
    for window in document["window"]:
        window["end"] = window["start"] + (window["end"] - window["start"]) / 10
        window["end_utc"] = window["start_utc"] + (window["end"] - window["start"])
    return document


def by_its_own_clock(share: float) -> dict:
    """A record whose rank 1 says that its window was so much shorter."""
    start = OK["window"][1]["rank_start"]
    length = OK["window"][1]["rank_end"] - start
    return changed("window", 1, rank_end=start + share * length)


def working(**changes) -> dict:
    """A record whose rank 1's processes did something else."""
    return changed("processes", 1, **changes)


LENGTH = OK["window"][1]["end"] - OK["window"][1]["start"]
START = OK["window"][1]["start"]
UTC = OK["window"][1]["start_utc"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (squeezed(), "steps.seconds are"),
        (changed("window", 0, end_utc=UTC + 900), "by its UTC stamps"),
        (changed("window", 1, start=START - 500, start_utc=UTC - 500), "(seconds_total)"),
        (changed("provenance", seconds_total=1.0), "(seconds_total)"),
        (
            changed("provenance", start_utc="2020-11-21T05:00:00Z", end_utc="2020-11-21T05:01:00Z"),
            "window lies outside",
        ),
        (changed("provenance", start_utc="2020-99-21T05:00:00Z"), "is not a time"),
        (by_its_own_clock(0.5), "window of rank 1: its window is"),
        (by_its_own_clock(1.5), "window of rank 1: its window is"),
        (changed("window", 1, start=START - 0.01), "not all ranks start at once"),
        ({**OK, "processes": OK["processes"][:1]}, "processes does not have each of the 2 ranks"),
        ({key: OK[key] for key in OK if key != "processes"}, "'processes' is a required property"),
        (working(cores=[0, 1, 2, 3]), "its threads may run on cores 0, 1, 2, 3, but"),
        (working(window_seconds=99 * LENGTH), "more than its"),
        (working(elapsed_seconds=LENGTH / 2, window_seconds=0), "were watched for"),
        (changed("window", 1, node="other"), "ranks of node 0 name several nodes"),
        (changed("steps", loss=[]), "steps.loss has 0 values for 10"),
        (changed("steps", warmup=7), "steps.warmup is 7"),
        ({**OK, "memory": OK["memory"][:1]}, "memory does not have each of the 2 ranks once"),
        ({**OK, "weights": OK["weights"][:1]}, "weights does not have each of the 2 ranks once"),
        ({**OK, "weights": []}, "weights does not have each of the 2 ranks once"),
        ({key: OK[key] for key in OK if key != "weights"}, "weights does not have each of the 2"),
        (changed("weights", 0, unchanged=55), "55 of 54 kernels and matrices are unchanged"),
        (changed("weights", 1, change=0), "0 of 54 kernels and matrices are unchanged, and change"),
        (changed("weights", 1, unchanged=1), "the same sha256 as another rank's, other values"),
        (changed("weights", 1, sha256="0"), "weights.1.sha256: '0' does not match"),
        (changed("weights", 1, change=-0.1), "weights.1.change: -0.1 is less than the minimum"),
        ({**OK, "unit": "tokens"}, "unit is 'tokens'"),
        (changed("parity", parameters=1), "parity.parameters is 1, but the case's is 25557032"),
        (changed("parity", precision="amp"), "parity.precision is 'amp', but the case's is 'fp32'"),
        (changed("parity", compiler="xla"), "parity.compiler is 'xla'"),
        (changed("parity", compute_dtype="bfloat16"), "parity.compute_dtype is 'bfloat16'"),
        (changed("host", cpu_features=5), "host.cpu_features: 5 is not of type 'array'"),
        (changed("host", gpus=["A100"]), "host.gpus.0: 'A100' is not of type 'object'"),
        (changed("provenance", scheduler_job_start_utc=5), "provenance.scheduler_job_start_utc"),
    ],
)
def test_what_physics_and_its_own_parts_forbid_is_refused(document, said):
    assert any(said in problem for problem in problems(document))


def row_of(config_: plan.Config, case: plan.Case, path: Path, content: bytes) -> Row:
    """The row of a record that is all of a round. AnalysisError where it is refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    take = partial(_of_case, config_, {case.folder: "t"}, columns.measurements([case.workload]))
    (merged,) = read_round(config_, [case], tmp_runs(path, case), take)
    return dict(zip(take.args[2], merged.measurements.rstrip("\n").split("\t"), strict=True))


def tmp_runs(path: Path, case: plan.Case) -> Path:
    return path.parents[len(Path(case.folder).parts)]


@pytest.mark.parametrize("whole", [OK, CRASHED, GPU], ids=["ok", "crashed", "gpu"])
@examples(200)
@given(data=st.data())
def test_a_damaged_record_is_named_or_changes_no_number(tmp_path, whole, data):
    config_, case_ = (ON_GPU, GPU_CASE) if whole is GPU else (ONE, CASE)
    path = tmp_path / "runs" / case_.folder / "rep1.json"
    before = row_of(config_, case_, path, json.dumps(whole).encode())
    content = damaged(whole, data.draw)
    try:
        after = row_of(config_, case_, path, content)
    except AnalysisError as error:
        assert str(path) in str(error)
    else:
        free = set(FREE)
        if b'"device_total_peak_bytes": null' in content:
            free.add("memory")  # of what a framework cannot say: what it allocated counts
        wrong = {
            key: (before[key], after[key])
            for key in before
            if key not in free and after[key] not in (before[key], "")
        }
        assert not wrong


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


def test_a_record_from_before_a_dimension_is_taken_where_that_is_standard():
    """ELECTRA's phases came when its trainings had long been measured; sizes as well as choices."""
    electra = {"batch_sizes": {"fp32": [2]}, "precisions": ["fp32"], "sequence_length": 16}
    mapping = config(frameworks=["pytorch"], topologies=["1n1d"], repetitions=1)
    made = plan.load({**mapping, "workloads": {"electra": electra}})
    (case,) = plan.expand(made)
    before = record(case, made, 1)
    for name in ("first_steps", "second_length", "second_batch_size"):
        del before["identity"][name]
    wanted = plan.document(case, made, 1)
    assert parse(json.dumps(before).encode(), wanted, case) == (before, [])
    del before["identity"]["sequence_length"]
    _, (said,) = parse(json.dumps(before).encode(), wanted, case)
    assert "identity.sequence_length is 128, but its path says 16" in said


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
