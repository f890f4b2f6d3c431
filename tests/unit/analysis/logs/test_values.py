"""Values of logs are checked where they are read, and every printed figure against the clock."""

import json
import random
import re
from datetime import timedelta

import pytest
import upstream_logs as upstream
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from read_logs import BERT, CLOCK, RESNET, case, imported

from dlperf.analysis.logs import SOURCES, load
from dlperf.analysis.logs.entries import read as read_entries
from dlperf.analysis.logs.lines import read as read_lines
from dlperf.analysis.schema.files import AnalysisError

MLLOG = ["framework=pytorch", "workload=gpt", "precision=amp", "data=c4", "nodes=1"]
MLLOG += ["devices_per_node=1", "batch_size=1"]
ONE = case(*RESNET, devices=1, batch_size=128)


def refused(capsys, folder, source, log, case, window) -> str:
    assert imported(folder, source, log, case=case, window=window) is None
    message: str = capsys.readouterr().err
    assert message.startswith("error: ") and "Traceback" not in message
    return message


def clock(rows) -> float:
    assert rows is not None and rows[0]["estimator"] == "wall_clock"
    return float(rows[0]["value"])


# ---- MLPerf's records


def samples_log(*blocks: tuple[int, int, int, int], evaluated: bool = False) -> str:
    """Blocks of (begin in ms, samples, end in ms, samples)."""
    text = upstream.mllog("train_samples", 0, 100)
    for begin, before, end, after in blocks:
        text += upstream.mllog("block_start", begin, samples_count=before)
        if evaluated:
            text += upstream.mllog("eval_start", end - 500) + upstream.mllog("eval_stop", end)
        text += upstream.mllog("block_stop", end, samples_count=after)
    return text


def test_a_block_that_counts_samples_is_read(tmp_path):
    log = samples_log((2000, 0, 9000, 200), (9500, 200, 13500, 400))
    rows = imported(tmp_path, "mllog", log, case=MLLOG, window=(0, 200))
    assert clock(rows) == pytest.approx(200 / 7, rel=1e-4)
    assert "a step is a sample, evaluations left out" in rows[0]["note"]
    rows = imported(tmp_path, "mllog", log, case=MLLOG, window=(200, 200))
    assert clock(rows) == pytest.approx(200 / 4)


def test_an_evaluation_that_does_not_count_samples_is_in_the_time_and_said(tmp_path):
    log = samples_log((2000, 0, 9000, 200), evaluated=True)
    rows = imported(tmp_path, "mllog", log, case=MLLOG, window=(0, 200))
    assert clock(rows) == pytest.approx(200 / 7, rel=1e-4)
    assert "evaluations are in the time" in rows[0]["note"]


def test_a_window_in_epochs_of_a_log_in_samples_is_answered_with_its_steps(capsys, tmp_path):
    log = samples_log((2000, 0, 9000, 200))
    message = refused(capsys, tmp_path, "mllog", log, MLLOG, (1, 1))
    assert "no line stands for the end of step" in message and "[the log has: 200]" in message


@pytest.mark.parametrize(
    ("key", "value", "about", "said"),
    [
        ("block_start", None, {}, "line 2: block_start: its metadata have neither first_epoch_num"),
        ("block_start", None, {"first_epoch_num": "one"}, 'first_epoch_num: "one" is not a whole'),
        ("block_start", None, {"first_epoch_num": 1.5}, "first_epoch_num: 1.5 is not a whole"),
        ("block_start", None, {"first_epoch_num": -1}, "first_epoch_num: -1 is not a whole number"),
        ("block_start", None, {"first_epoch_num": True}, "first_epoch_num: true is not a whole"),
        ("block_start", None, {"first_epoch_num": [1]}, "first_epoch_num: [1] is not a whole"),
        (
            "block_start",
            None,
            {"first_epoch_num": 1, "epoch_count": 0},
            "epoch_count: 0 is not a whole number, 1 or more",
        ),
        ("block_start", None, {"samples_count": float("inf")}, "samples_count: Infinity is not a"),
        ("block_start", None, {"samples_count": 10**30}, "samples_count: 1000"),
        ("train_samples", "many", {}, 'line 2: train_samples: "many" is not a whole number'),
        ("train_samples", float("nan"), {}, "train_samples: NaN is not a whole number"),
        ("train_samples", {"a": 1}, {}, 'train_samples: {"a": 1} is not a whole number'),
        ("train_samples", 0, {}, "train_samples: 0 is not a whole number, 1 or more"),
    ],
)
def test_a_record_with_a_value_that_cannot_be_is_named(key, value, about, said, capsys, tmp_path):
    log = upstream.mllog("submission_benchmark", 0, "gpt3")
    log += upstream.mllog(key, 10, value, **about)
    log += upstream.mllog("block_stop", 20, samples_count=5)
    message = refused(capsys, tmp_path, "mllog", log, MLLOG, (0, 5))
    assert "rank0.log: line 2: " in message and said in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("time", ["now", None, float("nan"), -1, 10**30, [1], True])
def test_a_record_with_a_time_that_is_none_is_named(time, capsys, tmp_path):
    record = {"key": "block_start", "value": None, "metadata": {}, "time_ms": time}
    log = f":::MLLOG {json.dumps(record)}\n"
    message = refused(capsys, tmp_path, "mllog", log, MLLOG, (0, 5))
    assert "line 1: block_start: time_ms: " in message and "is not a time in milli" in message


def test_records_without_a_block_are_not_denied(capsys, tmp_path):
    """As tinygrad's log of ResNet has them."""
    log = upstream.mllog("submission_benchmark", 0, "resnet") + upstream.mllog(
        "train_samples", 1, 9
    )
    for epoch in range(3):
        log += upstream.mllog("epoch_start", 1000 * epoch, epoch_num=epoch)
        log += upstream.mllog("epoch_stop", 1000 * epoch + 900, epoch_num=epoch)
        log += upstream.mllog("eval_start", 1000 * epoch + 900, epoch_num=epoch)
    message = refused(capsys, tmp_path, "mllog", log, MLLOG, (0, 1))
    assert "11 of its lines are :::MLLOG records, but none says block_start" in message
    assert "epoch_start (line 3), epoch_stop (line 4), eval_start (line 5)" in message
    assert "no line as of" not in message


def test_records_that_are_cut_are_not_denied(capsys, tmp_path):
    log = upstream.mllog_resnet().replace("}\n", "\n")
    message = refused(capsys, tmp_path, "mllog", log, MLLOG, (0, 1))
    assert "of its lines have :::MLLOG, but none a whole record of JSON with key" in message
    assert "no line as of" not in message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**400, -1, 0, "resnet", "bert", 1e308, "1", "9" * 5000]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=4,
)
KEYS = ["submission_benchmark", "train_samples", "block_start", "block_stop", "eval_start"]
KEYS += ["eval_stop", "eval_accuracy", "throughput", "tracked_stats", "epoch_start", "run_start"]
COUNTS = ["first_epoch_num", "epoch_count", "epoch_num", "samples_count", "imgs_sec"]
RECORD = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS) | JSON,
        "value": JSON | st.integers(0, 1000),
        "time_ms": st.integers(0, 10**7) | JSON,
        "metadata": st.dictionaries(st.sampled_from(COUNTS), JSON | st.integers(0, 50)) | JSON,
    }
)
PIECES = ["", '"', "{", "}", "[", ":::MLLOG ", "\n", "\r", "\0", "null", "NaN", "1e999", "9" * 60]


def end_well(path) -> None:
    """All sources read a log: entries, or one message that names the file."""
    log = read_lines(path)
    for name in SOURCES:
        try:
            read_entries(log, load(name))
        except AnalysisError as error:
            assert str(error).startswith(f"{path}: ")


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(RECORD, max_size=8))
@example([{"key": "submission_benchmark", "value": [], "time_ms": 1, "metadata": []}])
def test_no_record_ends_in_a_traceback(tmp_path, records):
    path = tmp_path / "rank0.log"
    path.write_text("".join(f":::MLLOG {json.dumps(record)}\n" for record in records))
    for name in ("mllog",):
        try:
            read_entries(read_lines(path), load(name))
        except AnalysisError as error:
            assert str(error).startswith(f"{path}: ")
    imported(tmp_path, "mllog", path.read_bytes(), case=MLLOG, window=(0, 1))


@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_damaged_records_end_well(seed, tmp_path, capsys):
    """Pieces are cut out of real logs, doubled, and put in elsewhere; five hundred times each."""
    dice = random.Random(seed)
    logs = [
        upstream.mllog_resnet(throughput=900.0),
        upstream.mllog_bert(),
        upstream.mllog_bert(evaluations=False),
        samples_log((2000, 0, 9000, 200), (9500, 200, 13500, 400)),
    ]
    path = tmp_path / "rank0.log"
    for _ in range(500):
        text = dice.choice(logs)
        for _ in range(dice.randint(1, 5)):
            start = dice.randrange(len(text))
            end = min(len(text), start + dice.choice([0, 1, 1, 2, 8, 40]))
            piece = dice.choice([*PIECES, text[end : end + dice.randrange(40)], str(dice.random())])
            text = text[:start] + piece + text[end:]
        path.write_text(text)
        try:
            read_entries(read_lines(path), load("mllog"))
        except AnalysisError as error:
            assert str(error).startswith(f"{path}: ")
        if dice.random() < 0.1:
            imported(tmp_path, "mllog", text, case=MLLOG, window=(0, dice.choice([1, 3, 200])))
            assert "Traceback" not in capsys.readouterr().err


LOGS = {
    "dllogger": upstream.dllogger_pytorch(steps=30),
    "gluon-cv": upstream.nvidia_mxnet_2019(),
    "gluon-nlp": upstream.gluon_nlp(),
    "tf-models": upstream.time_history(),
    "paddle": upstream.paddle_clas_static(),
    "oneflow": upstream.oneflow_gpt(),
    "mindspore": upstream.mindspore(),
    "hugectr": upstream.hugectr(),
    "megatron": upstream.megatron(),
    "deepspeed": upstream.deepspeed(),
}
NUMBERS = ["nan", "inf", "-inf", "-1", "0", "1e999", "1,5", "1.234,5", "1 000", "9" * 60, "", "٣"]


@pytest.mark.parametrize("source", LOGS)
def test_no_number_of_a_log_ends_in_a_traceback(source, tmp_path, capsys):
    """Numbers of a log are put in place of others; it is read, or refused with one message."""
    dice = random.Random(source)
    path = tmp_path / "rank0.log"
    numbers = list(re.finditer(r"-?\d+(?:\.\d+)?", LOGS[source]))
    for _ in range(40):
        text, spoilt = (
            LOGS[source],
            dice.sample(numbers, min(len(numbers), dice.choice([1, 3, 30]))),
        )
        for found in sorted(spoilt, key=lambda match: -match.start()):
            text = text[: found.start()] + dice.choice(NUMBERS) + text[found.end() :]
        path.write_text(text)
        imported(tmp_path, source, text, case=ONE, window=(20, dice.choice([10, 100])))
        assert "Traceback" not in capsys.readouterr().err


# ---- figures and the clock


RUNNING = "".join(
    f"[INFO 2020-01-02 05:{5 * index:02d}:00] 0/{50 + 1000 * index}, SamplesPerSec=13.2\n"
    for index in range(3)
)


def test_a_running_mean_far_from_the_clock_is_refused(capsys, tmp_path):
    given = case(*BERT, devices=1, batch_size=1)
    message = refused(capsys, tmp_path, "deepspeed", RUNNING, given, (50, 2000))
    assert "the running mean that it prints is 4 times what a global batch of 1 gives" in message
    rows = imported(
        tmp_path, "deepspeed", RUNNING, case=case(*BERT, devices=4, batch_size=1), window=(50, 2000)
    )
    assert clock(rows) == pytest.approx(40 / 3, rel=1e-4)


def test_a_running_mean_with_a_slow_start_is_not_far_from_the_clock(tmp_path):
    """Its first steps took 100 s, so that it is a third of the window's rate: the window's part of
    it is right."""
    log = "".join(
        f"[2020-09-15 14:{30 + (100 + step // 5) // 60}:{(100 + step // 5) % 60:02d},000] [INFO] "
        f"[timer.py:157:stop] 0/{step}, SamplesPerSec={8 * step / (100 + step / 5)}\n"
        for step in range(10, 260, 10)
    )
    rows = imported(
        tmp_path, "deepspeed", log, case=case(*BERT, devices=1, batch_size=8), window=(50, 200)
    )
    assert clock(rows) == pytest.approx(40)
    assert float(rows[1]["value"]) == pytest.approx(8 * 250 / 150, rel=1e-4)


def test_steps_a_second_are_held_against_the_clock(capsys, tmp_path):
    lines = upstream.paddle_steps().splitlines(True)
    given = case(*BERT, batch_size=32)
    for factor, taken in ((10, True), (30, False)):  # 10 steps a line: 2 s, or 6
        start = upstream.START
        timed = "".join(
            f"[{start + timedelta(seconds=0.2 * factor * number):%Y-%m-%d %H:%M:%S.%f}] {line}"
            for number, line in enumerate(lines)
        )
        if taken:
            assert clock(imported(tmp_path, "paddle", timed, case=given, window=(20, 100)))
        else:
            message = refused(capsys, tmp_path, "paddle", timed, given, (20, 100))
            assert "the rates that it prints are 3 times what a global batch of 256" in message


def test_durations_that_the_stamps_contradict_are_refused(capsys, tmp_path):
    log = upstream.megatron(head=" [%Y-%m-%d %H:%M:%S]")
    given = case(*BERT, batch_size=4, precision="amp")
    assert clock(imported(tmp_path, "megatron", log, case=given, window=(20, 100))) == 32 * CLOCK
    false = re.sub(
        r"(per iteration \(ms\): )([\d.]+)", lambda m: f"{m[1]}{float(m[2]) / 4:.1f}", log
    )
    message = refused(capsys, tmp_path, "megatron", false, given, (20, 100))
    assert "the window takes 20 s by time stamps" in message and "and 5 s by sum of" in message


def test_rates_of_queued_work_are_marked(tmp_path):
    log = upstream.mllog_resnet(throughput=50000.0)
    given = ["framework=mxnet", *case(*RESNET, batch_size=16, precision="amp")]
    rows = imported(tmp_path, "mllog", log, case=given, window=(0, 11))
    assert "100 times the clock's: is it work that was only queued?" in rows[1]["note"]


def test_a_clock_that_was_set_forward_is_noticed(capsys, tmp_path):
    log = re.sub(
        r"2020-09-15 14:29:2[6-9]\S*",
        "2020-09-15 19:00:00.100000",
        upstream.dllogger_pytorch(steps=65),
    )
    given = case(*RESNET, batch_size=128)
    message = refused(capsys, tmp_path, "dllogger", log, given, (20, 45))
    assert "the rates that it prints are" in message


# ---- what a message says


def test_values_that_do_not_count_are_named_with_the_reason(capsys, tmp_path):
    log = "".join(
        f"INFO:x:[Pass 0, train batch {step}]   loss 6.9, acc1 0.0, acc5 0.0, lr 0.1, "
        "batch_cost 0.13000 sec, reader_cost 0.00060 sec, ips 984.6 images/sec\n"
        for step in (10, 20)
    )
    message = refused(capsys, tmp_path, "paddle", log, ONE, (11, 10))
    assert "line 2 prints batch_cost 0.13000 sec, reader_cost 0.00060 sec, ips 984.6 ima" in message
    assert "which do not count: they are of the printed step alone" in message
    assert "no times, durations" not in message


def test_stamps_of_a_window_that_no_line_opens_are_not_denied(capsys, tmp_path):
    """The window begins before the first step, of whose end there is a line."""
    log = upstream.dllogger_bert_pytorch()
    message = refused(capsys, tmp_path, "dllogger", log, case(*BERT, batch_size=32), (0, 100))
    assert "its lines have time stamps, but none stands for the end of step 0" in message
    assert "choose --warmup 10" in message


def test_a_stamp_that_one_end_of_the_window_lacks_is_named(capsys, tmp_path):
    log = upstream.dllogger_bert_pytorch()
    log = re.sub(r"DLL \S+ \S+ - (Training Epoch: 0 Training Iteration: 120 )", r"\1", log)
    given = case(*BERT, batch_size=32)
    message = refused(capsys, tmp_path, "dllogger", log, given, (20, 100))
    assert "has a time stamp, but line 13 (step 120) has none" in message


@pytest.mark.parametrize(
    ("source", "log", "point", "comma"),
    [
        ("gluon-cv", upstream.gluon_cv(), r"Speed: (\d+)\.(\d+)", r"Speed: \1,\2"),
        ("dllogger", upstream.dllogger_pytorch(), r"ips : (\d+)\.(\d+)", r"ips : \1,\2"),
        ("deepspeed", upstream.deepspeed_2020(), r"PerSec=(\d+)\.(\d+)", r"PerSec=\1,\2"),
        ("paddle", upstream.paddle_clas(), r"(ips|cost|loss): (\d+)\.(\d+)", r"\1: \2,\3"),
        ("hugectr", upstream.hugectr(), r"(\d+)\.(\d+)s", r"\1,\2s"),
        ("megatron", upstream.megatron(), r"\(ms\): (\d+)\.(\d+)", r"(ms): \1,\2"),
        ("tf-models", upstream.time_history(), r"(\d+)\.(\d+) (sec|exa)", r"\1,\2 \3"),
    ],
)
def test_decimal_commas_are_named(source, log, point, comma, capsys, tmp_path):
    log = re.sub(point, comma, log)
    message = refused(capsys, tmp_path, source, log, ONE, (20, 100))
    assert "would be one if its numbers had no comma in them" in message and "LC_ALL=C" in message


def test_commas_between_thousands_are_no_rate_of_one(capsys, tmp_path):
    log = re.sub(r"ips : (\d+)(\d{3}\.\d+)", r"ips : \1,\2", upstream.dllogger_pytorch())
    message = refused(capsys, tmp_path, "dllogger", log, case(*RESNET, batch_size=128), (20, 100))
    assert "had no comma in them" in message


@pytest.mark.parametrize(
    "log",
    [
        "step 10 | 123.4 samples in 5 s\nstep 20 | 123.4 samples in 5 s\n",
        "nothing\n",
        "\n",
        "\x1b[32mEpoch 1/3\x1b[0m\r 12%|█▏        | 12/100 [00:04<00:30,  2.9it/s]\n",
    ],
)
def test_the_log_of_an_unknown_script_is_pointed_to_the_form(log, capsys, tmp_path):
    message = refused(capsys, tmp_path, "dllogger", log, ONE, (20, 100))
    assert "as docs/importing.md describes" in message


# ---- lines that are one


def two_loggers(log: str, later: str = "") -> str:
    """Each line of training twice, the second time as another logger prints it."""
    return "".join(
        line + (f"root - INFO - {line}{later}" if "Iteration" in line else "")
        for line in log.splitlines(True)
    )


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_lines_of_one_step_with_one_stamp_and_rate_are_one(devices, tmp_path):
    log = upstream.dllogger_pytorch()
    log = log.replace("world_size : 8", f"world_size : {devices}")
    log = log.replace("batch_size : 128", f"batch_size : {1024 // devices}")
    given = case(*RESNET, devices=devices, batch_size=1024 // devices)
    rows = imported(tmp_path, "dllogger", two_loggers(log), case=given, window=(20, 100))
    assert clock(rows) == 1024 * CLOCK
    assert "ranks" not in rows[0]["note"]


def test_a_step_with_one_stamp_and_two_rates_is_two_lines(capsys, tmp_path):
    log = upstream.dllogger_pytorch().replace("world_size : 8", "world_size : 1")
    double = "".join(
        line + re.sub(r"(ips : )\d", r"\g<1>9", line) if "Iteration" in line else line
        for line in log.splitlines(True)
    )
    message = refused(capsys, tmp_path, "dllogger", double, ONE, (20, 100))
    assert "stands twice" in message


def test_a_line_without_end_is_answered(capsys, tmp_path):
    """As a progress bar writes that never ends its line: patterns would search it for hours."""
    message = refused(capsys, tmp_path, "dllogger", "Iteration: 1 " * 200_000 + "\n", ONE, (0, 1))
    assert "no line as of" in message and len(message) < 1000


def test_a_log_of_many_restarts_names_the_first(capsys, tmp_path):
    log = "".join(reversed(upstream.dllogger_pytorch(steps=30).splitlines(True)))
    given = case(*RESNET, batch_size=128)
    message = refused(capsys, tmp_path, "dllogger", log, given, (6, 20))
    assert "at line 6 to 25, …: the log holds 30 runs" in message


def test_a_window_of_a_billion_steps_is_answered(capsys, tmp_path):
    log = upstream.dllogger_pytorch(steps=30)
    last = [line for line in log.splitlines(True) if "Iteration: 30 " in line][0]
    log += last.replace("Iteration: 30 ", f"Iteration: {10**12} ")
    given = case(*RESNET, batch_size=128)
    message = refused(capsys, tmp_path, "dllogger", log, given, (20, 10**12 - 20))
    assert "it lacks lines in the window" in message


def test_settings_that_are_cut_do_not_hide_the_training(tmp_path):
    log = "I0915 14:29:10.1 1 x.py:1] Final model parameters: {'a': {'num_gpus': 8,\n"
    rows = imported(
        tmp_path,
        "tf-models",
        log + upstream.time_history(),
        case=case(*RESNET, batch_size=128),
        window=(50, 100),
    )
    assert clock(rows) == 1024 * CLOCK
