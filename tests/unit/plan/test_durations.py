"""How long repetitions and certificates take: learned from records of this machine, or guessed."""

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf.measure import host
from dlperf.plan import document, durations, expand, load
from dlperf.plan.durations import certificate_timer, default_seconds, timer
from dlperf.workloads.cases import parse_case

CONFIG = """
round: mine
device: cpu
frameworks: [pytorch, jax]
workloads:
  resnet50: {precisions: [fp32], batch_sizes: {fp32: [8, 16]}, image_size: 64}
topologies: [1n1d]
repetitions: 3
steps: {warmup: 2, measured: 4}
timeout_seconds: 1000
"""
SMALL, LARGE = (f"resnet50/pytorch/train-fp32-1n1d-b{n}-synthetic-px64" for n in (8, 16))


@pytest.fixture
def config(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return load(Path("mine.yaml"))


SETTINGS = {
    "device": "cpu",
    "warmup_steps": 2,
    "measured_steps": 4,
    "cores_per_device": 1,
    "timeout_seconds": 1000,
    "seed": 1,
    "data_dir": "",
}


def record(folder, total=20.0, seconds=4.0, round="mine", repetition=1, **changes):
    """Write a record into results/<round>/runs; four of its six steps took so many seconds."""
    facts = {**host.facts(), "gpus": [], **changes.pop("host", {})}
    content = {
        "schema": "dlperf.record/2",
        "status": "ok",
        "identity": parse_case(folder).identity(round, repetition),
        "settings": {**SETTINGS, **changes.pop("settings", {})},
        "steps": {"measured": changes.pop("timed", 4)},
        "window": [
            {"rank": 0, "start": 50.0, "end": 49.9 + seconds},
            {"rank": 1, "start": 50.1, "end": 50.0 + seconds},
        ],
        "host": facts,
        "provenance": {"seconds_total": total},
        **changes,
    }
    path = Path("results", round, "runs", folder, f"rep{repetition}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def expected(config, folder):
    return timer(config)(parse_case(folder))


def test_it_is_the_median_of_the_cases_own_records(config):
    for number, seconds in enumerate([10.0, 30.0, 11.0], start=1):
        record(SMALL, seconds, repetition=number)
    assert expected(config, SMALL) == (11.0, "records")


def test_the_same_case_of_another_round_counts_on_the_same_machine(config):
    path = record(SMALL, 33.0, round="older")
    assert expected(config, SMALL) == (33.0, "rounds")
    record(SMALL, 9.0)
    assert expected(config, SMALL) == (9.0, "records"), "its own are nearer"
    shutil.rmtree("results/mine")
    for other in ({"cpu": "another"}, {"cores": 999}):
        path.unlink()
        record(SMALL, 33.0, round="older", host=other)
        assert expected(config, SMALL)[1] == "defaults", other


def test_this_rounds_records_count_wherever_its_nodes_are(config):
    record(SMALL, 33.0, host={"cpu": "a node's"})
    assert expected(config, SMALL) == (33.0, "records")


def test_other_steps_scale_what_steps_took_and_nothing_else(config):
    """Six steps took 6 of 20 seconds, as four of them took 4."""
    record(SMALL, 20.0, 4.0)
    more = load({**config.model_dump(), "steps": {"warmup": 2, "measured": 58}})
    assert expected(more, SMALL) == (pytest.approx(14 + 60), "records")


def test_a_window_that_lasts_longer_and_its_trial_are_counted(config):
    """Four steps take four seconds: the trial does too, and ten seconds are ten steps."""
    record(SMALL, 20.0, 4.0)
    longer = load({**config.model_dump(), "minimum_seconds": 10})
    assert expected(longer, SMALL) == (pytest.approx(14 + 2 + 4 + 10), "records")
    short = load({**config.model_dump(), "minimum_seconds": 3})
    assert expected(short, SMALL) == (pytest.approx(14 + 2 + 4 + 4), "records")
    shutil.rmtree("results/mine")
    record(SMALL, 30.0, 10.0, settings={"minimum_seconds": 10}, timed=10)
    assert expected(longer, SMALL) == (30.0, "records")
    assert expected(longer, LARGE) == (pytest.approx(14 + 2 * 2 + 2 * 4 + 10), "similar")
    assert expected(config, SMALL) == (pytest.approx(14 + 2 + 4), "records")


def test_a_similar_case_is_scaled_by_flops(config):
    record(SMALL, 20.0, 4.0)
    assert expected(config, LARGE) == (pytest.approx(14 + 2 * 6), "similar")
    record(SMALL, 20.0, 4.0, round="older")
    shutil.rmtree("results/mine")
    assert expected(config, LARGE) == (pytest.approx(14 + 2 * 6), "similar")


def test_a_device_of_a_split_model_does_its_share_of_a_replicas_work():
    whole, split = (
        parse_case(f"gpt/pytorch/train-amp-{spread}-b4-synthetic")
        for spread in ("1n1d", "1n8d-tp2-pp2")
    )
    assert durations.flops(split) == durations.flops(whole) / 4


def test_twice_the_cores_take_half_as_long_for_the_steps_alone(config):
    record(SMALL, 20.0, 4.0)
    two = load({**config.model_dump(), "cores_per_device": 2})
    assert expected(two, SMALL) == (pytest.approx(14 + 3), "records")


def test_of_similar_cases_the_one_most_alike_counts(config):
    record("resnet50/pytorch/train-fp32-inductor-1n1d-b16-synthetic-px64", 200.0)
    record("resnet50/pytorch/train-fp32-1n2d-b16-synthetic-px64", 100.0)
    record(SMALL, 20.0, 4.0)
    assert expected(config, LARGE)[0] == pytest.approx(26)


def test_another_frameworks_or_workloads_records_say_nothing(config):
    record(SMALL.replace("pytorch", "jax"), 500.0)
    record("wide_deep/pytorch/train-fp32-1n1d-b512-sample-voc260000-l2", 500.0, round="other")
    assert expected(config, SMALL)[1] == "defaults"


def test_a_failure_does_not_count(config):
    for status in ("crashed", "oom", "timeout", "unsupported"):
        record(SMALL, 1.0, status=status)
        assert expected(config, SMALL)[1] == "defaults", status
    record(SMALL, 21.0, repetition=2)
    assert expected(config, SMALL) == (21.0, "records")


@pytest.mark.parametrize(
    "changes",
    [
        {"window": []},
        {"window": [{"rank": 0}]},
        {"host": {"cpu": None, "cores": None}, "provenance": {}},
        {"provenance": {"seconds_total": "long"}},
        {"provenance": {"seconds_total": -3}},
        {"settings": {"measured_steps": 0, "warmup_steps": 0}},
        {"settings": {"cores_per_device": 0}},
        {"identity": {"workload": "nobody's"}},
        {"identity": []},
    ],
)
def test_a_record_that_lacks_what_it_should_have_is_passed_over(config, changes):
    record(SMALL, **changes)
    assert expected(config, SMALL)[1] == "defaults"
    assert expected(config, LARGE)[1] == "defaults"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"status": "ok"}', "\x00\xff"])
def test_what_is_no_record_is_passed_over(config, text):
    record(SMALL).write_text(text)
    Path("results/mine/runs/resnet50/pytorch/notes.txt").write_text("mine")
    Path("results/notes").mkdir()
    Path("results/broken").mkdir()
    Path("results/broken/runs").symlink_to("/nowhere")
    assert expected(config, SMALL)[1] == "defaults"


def test_no_estimate_is_longer_than_the_timeout(config):
    record(SMALL, 900.0, 880.0)
    assert expected(config, LARGE) == (1000, "similar")


def test_however_many_records_there_are_few_are_read(config, monkeypatch):
    batches = [8, 16, 32]
    text = record(SMALL).read_text()
    for batch in batches:
        for number in range(1, 6):
            for round in ["mine", *(f"older{n}" for n in range(durations.ROUNDS + 2))]:
                folder = Path(f"results/{round}/runs", SMALL.replace("b8", f"b{batch}"))
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"rep{number}.json").write_text(text)
    opened = []
    real = durations.read
    monkeypatch.setattr(durations, "read", lambda path: opened.append(path) or real(path))
    asked = timer(config)
    for batch in [*batches, 7, 24, 1000]:
        asked(parse_case(SMALL.replace("b8", f"b{batch}")))
    assert len(opened) <= durations.RECORDS * len(batches)
    opened.clear()
    shutil.rmtree("results/mine")
    for path in Path("results").rglob("rep*.json"):
        path.write_text("{}")
    asked = timer(config)
    asked(parse_case(SMALL))
    assert len(opened) <= durations.RECORDS * (durations.ROUNDS + durations.FOLDERS)


def test_rounds_on_gpus_do_not_hide_the_older_ones_on_this_cpu(config):
    record(SMALL, 33.0, round="cpu")
    Path("results/cpu/config.yaml").write_text("round: cpu\ndevice: cpu\n")
    os.utime("results/cpu/runs", (1, 1))
    for number in range(durations.ROUNDS + 1):
        record(SMALL, 1.0, round=f"gpu{number}", settings={"device": "cuda"})
        Path(f"results/gpu{number}/config.yaml").write_text("round: gpu\ndevice: cuda\n")
    assert expected(config, SMALL) == (33.0, "rounds")


def test_a_plan_made_where_no_gpu_is_learns_from_the_nodes(config, monkeypatch):
    gpu = load({**config.model_dump(), "device": "cuda", "minimum_seconds": 0})
    on_node = {"cpu": "a node's", "cores": 64, "gpus": [{"name": "H100"}, {"name": "H100"}]}
    record(SMALL, 44.0, round="older", host=on_node, settings={"device": "cuda"})
    monkeypatch.setattr(host, "gpu_facts", lambda gpus: [])
    assert expected(gpu, SMALL) == (44.0, "rounds")
    monkeypatch.setattr(host, "gpu_facts", lambda gpus: [{"name": "V100"}])
    assert expected(gpu, SMALL)[1] == "defaults", "here is another one"


def test_a_server_waits_for_its_requests_however_fast_it_is(config):
    serving = load(
        {
            **config.model_dump(),
            "workloads": {
                "resnet50": {
                    "scenarios": ["infer"],
                    "precisions": ["fp32"],
                    "batch_sizes": {"fp32": [1]},
                    "image_size": 64,
                    "infer": {
                        "arrival_rate": [2, 4],
                        "steps": {"warmup": 2, "measured": 40},
                    },
                }
            },
        }
    )
    slow, fast = (c for c in expand(serving) if c.scenario == "server" and c.framework == "jax")
    path = Path("results/mine/runs", slow.folder, "rep1.json")
    path.parent.mkdir(parents=True)
    own = document(slow, serving, 1)
    content = {
        **own,
        "status": "ok",
        "steps": {"measured": 40},
        "window": [{"rank": 0, "start": 0.0, "end": 20.0}],
        "host": {**host.facts(), "gpus": []},
        "provenance": {"seconds_total": 30.0},
    }
    path.write_text(json.dumps(content))
    assert timer(serving)(slow) == (30.0, "records")
    assert timer(serving)(fast) == (20.0, "similar")


def test_the_laptop_round_takes_about_a_quarter_of_an_hour_by_the_defaults():
    """As measured on two quiet cores of a server: 12 minutes for its 80 repetitions and report."""
    config = load(ROOT / "config/config.yaml")
    seconds = config.repetitions * sum(default_seconds(case, config) for case in expand(config))
    assert 10 * 60 < seconds < 16 * 60


def certificate(path, seconds):
    path = Path("results", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"provenance": {"seconds": seconds}}))


def test_a_certificate_takes_as_long_as_it_took_or_as_those_beside_it(config, monkeypatch):
    monkeypatch.setattr(durations, "ROOT", Path("nowhere"))
    folder = "certificates/bert/jax"
    assert certificate_timer()(f"{folder}/cpu-fp32-xla-1.json") == durations.CERTIFICATE_SECONDS
    for layout, seconds in (("1", 100.0), ("dp2", 200.0), ("dp4", 600.0)):
        certificate(f"{folder}/cpu-fp32-xla-{layout}.json", seconds)
    Path("results", folder, "cpu-fp32-xla-acc2.json").write_text("{}")
    asked = certificate_timer()
    assert asked(f"{folder}/cpu-fp32-xla-1.json") == 100
    assert asked(f"{folder}/cpu-fp32-xla-acc2.json") == 200
    assert asked("certificates/bert/mxnet/cpu-fp32-static-1.json") == 200
    assert asked("certificates/resnet50/jax/cpu-fp32-xla-1.json") == durations.CERTIFICATE_SECONDS


def test_berts_certificates_take_longer_than_those_of_clicks(config):
    asked = certificate_timer()
    berts = asked("certificates/bert/jax/cpu-fp32-xla-1.json")
    assert berts > 60
    assert asked("certificates/wide_deep/pytorch/cpu-fp32-1.json") < berts / 3
