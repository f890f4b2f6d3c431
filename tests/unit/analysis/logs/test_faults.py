"""A log that lacks lines, starts again, crosses midnight or mixes ranks: right, or refused."""

import csv
import gzip
import random
import re
from datetime import datetime, timedelta

import pytest
import upstream_logs as upstream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from read_logs import BERT, CLOCK, RESNET, case, imported

from dlperf.analysis.logs import stamps
from dlperf.analysis.publications.values import COLUMNS

WINDOW = (20, 100)
EIGHT = case(*RESNET, batch_size=128)
LOG = upstream.dllogger_pytorch()
RIGHT = 1024 * CLOCK
SHORT = upstream.dllogger_pytorch(steps=30)
SHORT_WINDOW = (6, 20)


def clock(rows) -> float:
    """The wall clock's figure."""
    assert rows is not None
    return float(rows[0]["value"]) if rows[0]["estimator"] == "wall_clock" else float("nan")


def refused(capsys, folder, source, *logs, case=EIGHT, window=WINDOW, more=()) -> str:
    """The message with which the logs are refused; nothing is written."""
    assert imported(folder, source, *logs, case=case, window=window, more=more) is None
    assert not (folder / "rows.csv").exists()
    message = capsys.readouterr().err
    assert "Traceback" not in message and message.startswith("error: ")
    return message


def without(log: str, *steps: int) -> str:
    found = "|".join(f"Iteration: {step} " for step in steps)
    return "".join(line for line in log.splitlines(True) if not re.search(found, line))


# ---- lines that are missing, twice, cut or spoilt


def test_a_step_without_its_line_is_named(capsys, tmp_path):
    message = refused(capsys, tmp_path, "dllogger", without(LOG, 60, 61, 77))
    assert "end of step 60, 61, 77" in message and "lacks lines in the window" in message


def test_a_window_that_the_log_has_no_line_for_is_answered_with_those_it_has(capsys, tmp_path):
    message = refused(capsys, tmp_path, "tf-models", upstream.time_history())
    assert "no line stands for the end of step 20" in message
    assert "[the log has: 50, 100, 150]" in message


def test_a_log_that_ends_before_the_window_does_is_refused(capsys, tmp_path):
    message = refused(capsys, tmp_path, "dllogger", LOG, window=(20, 200))
    assert "no line stands for the end of step 220" in message


def test_a_last_line_that_is_cut_never_counts(capsys, tmp_path):
    """'Iteration: 12' may be what is left of 'Iteration: 120': without its end it is no line."""
    log = LOG[: LOG.index("Iteration: 121 ")] + "Iteration: 12"
    assert clock(imported(tmp_path, "dllogger", log, case=EIGHT, window=WINDOW)) == RIGHT
    (tmp_path / "rows.csv").unlink()
    cut = LOG[: LOG.index("\n", LOG.index("Iteration: 120 "))]
    message = refused(capsys, tmp_path, "dllogger", cut)
    assert "last line has no end" in message


def test_lines_that_tee_or_a_second_logger_doubled_count_once(tmp_path):
    doubled = "".join(line * 2 for line in LOG.splitlines(True))
    one = case(*RESNET, devices=1, batch_size=1024)
    doubled = doubled.replace("world_size : 8", "world_size : 1").replace(
        "size : 128", "size : 1024"
    )
    assert clock(imported(tmp_path, "dllogger", doubled, case=one, window=WINDOW)) == RIGHT
    assert (
        clock(
            imported(
                tmp_path,
                "dllogger",
                "".join(line * 2 for line in LOG.splitlines(True)),
                case=EIGHT,
                window=WINDOW,
            )
        )
        == RIGHT
    )


def test_a_step_that_stands_twice_at_different_times_is_refused(capsys, tmp_path):
    """A skipped step of mixed precision prints its number again."""
    lines = LOG.splitlines(True)
    again = next(line for line in lines if "Iteration: 60 " in line)
    later = f"DLL {upstream.at(60) + timedelta(seconds=0.05)}{again[again.index(' - ') :]}"
    lines.insert(lines.index(again) + 1, later)
    one = "".join(lines).replace("world_size : 8", "world_size : 1")
    given = case(*RESNET, devices=1, batch_size=128)
    message = refused(capsys, tmp_path, "dllogger", one, case=given)
    assert "step 60 stands twice" in message


def test_two_records_on_one_line_count_both(tmp_path):
    """Processes that write at the same moment: the end of a line is lost."""
    line = next(line for line in LOG.splitlines(True) if "Iteration: 60 " in line)
    glued = LOG.replace(line, line.rstrip("\n"))
    assert clock(imported(tmp_path, "dllogger", glued, case=EIGHT, window=WINDOW)) == RIGHT


@pytest.mark.parametrize("source", ["megatron", "dllogger", "deepspeed"])
def test_steps_that_the_loss_scale_skipped_are_said(source, tmp_path):
    if source == "megatron":  # one in each ten steps, the line at the window's start left out
        log, given = upstream.megatron(skipped=1), case(*BERT, batch_size=4, precision="amp")
        window, said = WINDOW, "10 skipped steps (loss scale) are among its steps"
    elif source == "deepspeed":
        log = re.sub(
            r"(step=(\d+), skipped=)5",
            lambda m: f"{m[1]}{int(m[2]) // 20}",
            upstream.deepspeed_2020(),
        )
        given, window = case(*BERT, batch_size=32), WINDOW
        said = "5 skipped steps (loss scale) are among its steps"
    else:
        log = upstream.dllogger_bert_2023(skipped=0)
        log = re.sub(r"(Iteration: [6-9]\d .*skipped_steps : )0", r"\g<1>2", log)
        log = re.sub(r"(Iteration: 1\d\d .*skipped_steps : )0", r"\g<1>2", log)
        log = log.replace("gradient_accumulation_steps=10, n", "gradient_accumulation_steps=1, n")
        given, window = case(*BERT, batch_size=32, precision="amp"), WINDOW
        said = "2 skipped steps (loss scale) are in its time, not among its steps"
    rows = imported(tmp_path, source, log, case=given, window=window)
    assert said in rows[0]["note"]
    quiet = imported(tmp_path, source, log, case=given, window=(20, 10))
    assert ("skipped" in quiet[0]["note"]) == (source == "megatron")


def test_skipped_steps_that_are_printed_again_are_left_to_the_warm_up(capsys, tmp_path):
    log = upstream.dllogger_bert_2023().replace(
        "accumulation_steps=10, n", "accumulation_steps=1, n"
    )
    given = case(*BERT, batch_size=32, precision="fp16")
    assert "4 different lines stand for step 1" in refused(
        capsys, tmp_path, "dllogger", log, case=given, window=(1, 9)
    )
    assert imported(tmp_path, "dllogger", log, case=given, window=(2, 90))


def test_losses_that_are_no_numbers_keep_the_figure_and_are_said(tmp_path):
    log = re.sub(r"(Iteration: \d+0  train\.loss :) \S+", r"\1 nan", LOG)
    rows = imported(tmp_path, "dllogger", log, case=EIGHT, window=WINDOW)
    assert clock(rows) == RIGHT
    assert "the loss is no number in 10 lines" in rows[0]["note"]


def test_a_rate_that_is_no_number_costs_its_own_row_only(tmp_path):
    log = re.sub(r"(Iteration: 60 .*total_ips :) \S+", r"\1 inf", LOG)
    rows = imported(tmp_path, "dllogger", log, case=EIGHT, window=WINDOW)
    assert [row["estimator"] for row in rows] == ["wall_clock"]


@pytest.mark.parametrize(
    "encoded",
    [
        LOG.encode("utf-16"),
        b"\xef\xbb\xbf" + LOG.encode(),
        LOG.replace("RUNNING", "日志 RUNNING").encode("gb18030"),
        LOG.replace("RUNNING", "\xff\0RUNNING").encode("latin-1"),
        LOG.replace("\n", "\r\n").encode(),
        re.sub(r"(?m)^DLL", "Iteration:  12%|█▏        | 12/100\rDLL", LOG).encode(),
        re.sub(r"(?m)^(DLL.*)$", "\x1b[32m\\1\x1b[0m", LOG).encode(),
    ],
    ids=["UTF-16", "mark", "GB18030", "bytes", "CRLF", "progress bar", "colours"],
)
def test_any_encoding_gives_the_same_figure(encoded, tmp_path):
    assert clock(imported(tmp_path, "dllogger", encoded, case=EIGHT, window=WINDOW)) == RIGHT


def test_a_packed_log_is_read(tmp_path):
    path = tmp_path / "rank0.log.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    from dlperf.analysis.__main__ import main

    out = tmp_path / "rows.csv"
    arguments = ["--source", "dllogger", "--log", str(path), "--warmup", "20", "--measured", "100"]
    assert main(["log", *arguments, "--case", *EIGHT, "--out", str(out)]) == 0
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["log", *arguments, "--case", *EIGHT, "--out", str(out)]) == 1


# ---- runs and epochs


def test_a_log_that_starts_again_needs_a_choice(capsys, tmp_path):
    """The second run is twice as fast: neither's time may be mixed with the other's."""
    first = upstream.dllogger_pytorch(steps=28)
    slow = upstream.dllogger_pytorch(start=upstream.START + timedelta(hours=1), steps=30)
    fast = re.sub(
        r"2020-09-15 \S+",
        lambda found: str(
            datetime(2020, 9, 15, 16)
            + (datetime.fromisoformat(found[0]) - datetime(2020, 9, 15, 15)) / 2
        ),
        slow,
    )
    fast = re.sub(
        r"total_ips : (\S+)", lambda found: f"total_ips : {2 * float(found[1]):.2f}", fast
    )
    both = first + fast
    message = refused(capsys, tmp_path, "dllogger", both, window=SHORT_WINDOW)
    assert "the step falls at line 35 to 1: the log holds 2 runs" in message
    for run, factor in {"1": 1, "2": 2, "last": 2}.items():
        rows = imported(
            tmp_path, "dllogger", both, case=EIGHT, window=SHORT_WINDOW, more=["--run", run]
        )
        assert clock(rows) == factor * RIGHT
        assert f"run {run}" in rows[0]["note"]
    (tmp_path / "rows.csv").unlink()
    message = refused(capsys, tmp_path, "dllogger", both, window=SHORT_WINDOW, more=["--run", "3"])
    assert "--run 3: the log holds 2" in message


def test_steps_that_count_anew_in_an_epoch_are_no_restart(tmp_path):
    second = upstream.dllogger_pytorch(start=upstream.START + timedelta(hours=1), steps=30)
    both = SHORT + second.replace("Epoch: 0", "Epoch: 1")
    rows = imported(tmp_path, "dllogger", both, case=EIGHT, window=SHORT_WINDOW)
    assert clock(rows) == RIGHT
    more = ["--epoch", "1"]
    rows = imported(tmp_path, "dllogger", both, case=EIGHT, window=SHORT_WINDOW, more=more)
    assert clock(rows) == RIGHT and "epoch 1" in rows[0]["note"]


def test_a_window_never_reaches_from_one_epoch_into_the_next(capsys, tmp_path):
    second = upstream.dllogger_pytorch(start=upstream.START + timedelta(hours=1), steps=30)
    both = SHORT + second.replace("Epoch: 0", "Epoch: 1")
    message = refused(capsys, tmp_path, "dllogger", both, window=(6, 30))
    assert "no line stands for the end of step 36" in message


def test_an_evaluation_inside_the_window_is_refused(capsys, tmp_path):
    log = upstream.hugectr()
    lines = log.splitlines(True)
    lines.insert(5, "[HCTR][14:29:26.123][INFO][RK0][main]: Eval Time for 681 iters: 6.449376s\n")
    message = refused(capsys, tmp_path, "hugectr", "".join(lines))
    assert "line 6" in message and "training stood still" in message
    rows = imported(tmp_path, "hugectr", "".join(lines), case=EIGHT, window=(60, 80))
    assert clock(rows) == RIGHT


def test_a_process_that_went_on_from_a_checkpoint_inside_the_window_is_refused(capsys, tmp_path):
    """Its steps never fall, but the window's time has the restart in it."""
    lines = SHORT.splitlines(True)
    resumed = [
        re.sub(
            r"(?<=DLL )2020-09-15 \S+",
            lambda found: str(datetime.fromisoformat(found[0]) + timedelta(minutes=2)),
            line,
        )
        for line in lines[18:]
    ]
    log = "".join(lines[:18] + lines[:3] + resumed)
    message = refused(capsys, tmp_path, "dllogger", log, window=SHORT_WINDOW)
    assert "line 19 states settings inside the window" in message
    # without its header nothing but its length tells: that is said
    log = re.sub(r"train.total_ips : \S+", "train.total_ips : 164", "".join(lines[:18] + resumed))
    rows = imported(tmp_path, "dllogger", log, case=EIGHT, window=SHORT_WINDOW)
    assert "steps 15 to 16 took" in rows[0]["note"]


# ---- time


@pytest.mark.parametrize(
    "start", [datetime(2020, 9, 15, 23, 59, 52), datetime(2020, 12, 31, 23, 59, 52, 1)]
)
def test_midnight_and_new_year_inside_the_window_change_nothing(start, tmp_path):
    for source, log in {
        "dllogger": upstream.dllogger_pytorch(start=start),
        "tf-models": upstream.time_history(start=start),
    }.items():
        window = (50, 100) if source == "tf-models" else WINDOW
        assert clock(imported(tmp_path, source, log, case=EIGHT, window=window)) == RIGHT


def test_times_without_a_date_cross_midnight(tmp_path):
    """As `ts %H:%M:%.S` or a launcher puts them before lines that have no time of their own."""
    start = datetime(2020, 9, 15, 23, 59, 52)
    lines = upstream.gluon_cv().splitlines(True)
    timed = lines[:1] + [
        f"{upstream.at(10 * number, start):%H:%M:%S.%f} {line}"
        for number, line in enumerate(lines[1:], start=1)
    ]
    given = case(*RESNET, precision="amp", batch_size=64)
    rows = imported(tmp_path, "gluon-cv", "".join(timed), case=given, window=WINDOW)
    assert clock(rows) == 512 * CLOCK


def test_ranks_that_write_around_midnight_stay_on_one_day():
    texts = ["23:59:59.5", "00:00:01.0", "23:59:59.9", "00:00:02.0"]
    times = stamps.unroll(stamps.find(text) for text in texts)
    assert [time - times[0] for time in times] == pytest.approx([0.0, 1.5, 0.4, 2.5])


def test_a_clock_that_was_set_back_inside_the_window_is_refused(capsys, tmp_path):
    log = LOG.replace(f"DLL {upstream.at(60)}", f"DLL {upstream.at(60) - timedelta(minutes=3)}")
    assert "time runs backwards" in refused(capsys, tmp_path, "dllogger", log)


def test_whole_seconds_say_how_far_off_they_may_be_or_are_refused(capsys, tmp_path):
    given = case(*BERT, batch_size=4)
    rows = imported(tmp_path, "oneflow", upstream.libai(), case=given, window=WINDOW)
    assert clock(rows) == pytest.approx(32 * CLOCK, rel=0.05)
    assert "rounded: ± 5.0 %" in rows[0]["note"]
    (tmp_path / "rows.csv").unlink()
    message = refused(capsys, tmp_path, "oneflow", upstream.libai(), case=given, window=(20, 50))
    assert "rounded to ± 1 s: choose more steps" in message


def test_a_window_too_short_for_whole_seconds_takes_the_running_means(tmp_path):
    """But only where they agree with the stamps: else training stood still between its steps."""
    given = case(*RESNET, batch_size=64, precision="amp")
    log = upstream.paddle_clas_static()
    rows = imported(tmp_path, "paddle", log, case=given, window=WINDOW)
    assert clock(rows) == pytest.approx(512 * CLOCK, rel=1e-3)
    assert "mean durations of a step, printed at both ends" in rows[0]["note"]

    def a_minute_later(line: re.Match[str]) -> str:
        time = datetime.strptime(line[1], "%Y/%m/%d %H:%M:%S") + timedelta(minutes=1)
        return f"[{time:%Y/%m/%d %H:%M:%S}]{line[2]}"

    late = re.sub(r"\[(\S+ \S+)\](.*train step:(?:[6-9]|1\d)\d)", a_minute_later, log)
    rows = imported(tmp_path, "paddle", late, case=given, window=WINDOW)
    assert clock(rows) == pytest.approx(512 * 100 / 80, rel=0.02)
    assert "time stamps" in rows[0]["note"]


def test_a_running_mean_from_before_its_beginning_is_no_duration(capsys, tmp_path):
    given = case(*RESNET, batch_size=64)
    log = upstream.paddle_clas()  # the first line is of step 1, the mean counts from the fifth on
    message = refused(capsys, tmp_path, "paddle", log, case=given, window=(1, 20))
    assert "rounded to ± 1 s: choose more steps" in message
    assert clock(imported(tmp_path, "paddle", log, case=given, window=(11, 20))) == pytest.approx(
        512 * CLOCK, rel=1e-3
    )


def test_a_launchers_label_counts_after_a_progress_bar_too(tmp_path):
    """mpirun --timestamp-output --tag-output: the bar did not end its line."""
    lines = upstream.gluon_cv().splitlines(True)
    log = lines[0] + "".join(
        "Iteration:   7%|7  | 78/1147 [00:14<03:10]" * (number % 2)
        + f"{upstream.START + timedelta(seconds=20 * number):%a %b %e %H:%M:%S %Y}"
        + f"[1,{rank}]<stdout>:{line}"
        for number, line in enumerate(lines[1:], start=1)
        for rank in (0, 1)
    )
    log = log.replace("Speed: 2560", "Speed: 256").replace("num_gpus=8", "num_gpus=2")
    log = log.replace("batch_size=64", "batch_size=256")
    given = case(*RESNET, precision="amp", batch_size=256, devices=2)
    rows = imported(tmp_path, "gluon-cv", log, case=given, window=WINDOW)
    assert clock(rows) == 512 * CLOCK / 10
    assert "2 ranks" in rows[0]["note"]
    late = log.replace("[1,1]", "[1,0]", 1)  # a line of another rank
    assert imported(tmp_path, "gluon-cv", late, case=given, window=(10, 20)) is None


def test_a_log_without_times_gives_no_wall_clock_and_says_so(tmp_path):
    given = case(*RESNET, precision="amp", batch_size=64)
    rows = imported(tmp_path, "gluon-cv", upstream.gluon_cv(), case=given, window=WINDOW)
    assert "wall_clock" not in {row["estimator"] for row in rows}
    assert all("the log has no times" in row["note"] for row in rows)


# ---- ranks


def labelled(log: str, ranks: int, prefix: str = "[1,{}]<stdout>:") -> list[list[str]]:
    """Each rank's lines, a little later than the one's before it."""
    found = []
    for rank in range(ranks):
        late = re.sub(
            r"(?<=DLL )2020-09-15 \S+",
            lambda m, rank=rank: str(
                datetime.fromisoformat(m[0]) + timedelta(microseconds=100 * rank)
            ),
            log,
        )
        found.append([prefix.format(rank) + line for line in late.splitlines(True)])
    return found


@pytest.mark.parametrize("prefix", ["[1,{}]<stdout>:", "[{}] ", "{}: ", "[rank{}]: "])
def test_ranks_that_share_a_log_are_told_apart_by_their_launchers_labels(prefix, tmp_path):
    together = "".join(
        line for lines in zip(*labelled(SHORT, 8, prefix), strict=True) for line in lines
    )
    rows = imported(tmp_path, "dllogger", together, case=EIGHT, window=SHORT_WINDOW)
    # the last rank ends 0.7 ms after the first
    assert clock(rows) == pytest.approx(1024 * 20 / 4.0007, rel=1e-5)
    assert "8 ranks" in rows[0]["note"]
    assert float(rows[1]["value"]) == pytest.approx(1024 * (10 + 10 / 3) / 2, rel=1e-4)


def test_ranks_without_a_name_are_told_apart_by_their_number(tmp_path):
    together = "".join(
        line for lines in zip(*labelled(SHORT, 8, ""), strict=True) for line in lines
    )
    rows = imported(tmp_path, "dllogger", together, case=EIGHT, window=SHORT_WINDOW)
    assert clock(rows) == pytest.approx(1024 * 20 / 4.0007, rel=1e-5)


def test_a_nameless_rank_that_lags_a_step_behind_is_no_restart(tmp_path):
    ranks = labelled(SHORT, 8, "")
    ranks[7] = [*ranks[7][:3], "", *ranks[7][3:]]  # a line later than the others throughout
    rounds = zip(*(lines + [""] * (34 - len(lines)) for lines in ranks), strict=True)
    together = "".join(line for each in rounds for line in each)
    rows = imported(tmp_path, "dllogger", together, case=EIGHT, window=SHORT_WINDOW)
    assert clock(rows) == pytest.approx(1024 * 20 / 4.0007, rel=1e-5)


def test_a_log_a_rank_is_one_run(tmp_path):
    logs = ["".join(lines) for lines in labelled(SHORT, 8, "")]
    rows = imported(tmp_path, "dllogger", *logs, case=EIGHT, window=SHORT_WINDOW)
    assert clock(rows) == RIGHT  # the clocks of nodes may differ: the longest of their windows
    assert rows[0]["source"].count("sha256:") == 8


def test_a_log_a_node_of_ranks_without_a_name_is_one_run(tmp_path):
    nodes = [labelled(SHORT, 8, "")[:4], labelled(SHORT, 8, "")[4:]]
    logs = ["".join(line for each in zip(*node, strict=True) for line in each) for node in nodes]
    given = [*(pair for pair in EIGHT if "node" not in pair), "nodes=2", "devices_per_node=4"]
    rows = imported(tmp_path, "dllogger", *logs, case=given, window=SHORT_WINDOW)
    assert clock(rows) == pytest.approx(1024 * 20 / 4.0003, rel=1e-5)


def test_ranks_that_are_missing_are_refused(capsys, tmp_path):
    logs = ["".join(lines) for lines in labelled(SHORT, 3, "")]
    message = refused(capsys, tmp_path, "dllogger", *logs, window=SHORT_WINDOW)
    assert "lines of 3 ranks, but the case has 8" in message


def test_the_same_log_twice_is_no_second_rank(capsys, tmp_path):
    message = refused(capsys, tmp_path, "dllogger", SHORT, SHORT, window=SHORT_WINDOW)
    assert "has the contents of another --log" in message


def test_a_nameless_rank_that_lacks_a_line_is_refused(capsys, tmp_path):
    ranks = labelled(SHORT, 8, "")
    ranks[3] = [line for line in ranks[3] if "Iteration: 20 " not in line]
    together = sorted(line for lines in ranks for line in lines if " - Ep" in line)
    message = refused(capsys, tmp_path, "dllogger", "".join(together), window=SHORT_WINDOW)
    assert "7 different lines stand for step 20" in message and "cannot be told apart" in message


def test_the_slowest_rank_counts_where_ranks_have_names(tmp_path):
    lines = [line for line in upstream.hugectr().splitlines(True)]
    slow = [
        re.sub(r"(iters\): )(\S+)s", lambda m: f"{m[1]}{1.5 * float(m[2])}s", each)
        for each in lines
    ]
    given = case(*RESNET, devices=2, batch_size=128)
    both = "".join(f"0: {a}1: {b}" for a, b in zip(lines, slow, strict=True))
    rows = imported(tmp_path, "hugectr", both, case=given, window=WINDOW)
    assert clock(rows) == pytest.approx(256 * CLOCK / 1.5)


# ---- what the user says and what the log says


@pytest.mark.parametrize(
    ("source", "log", "given", "message"),
    [
        ("dllogger", LOG, case(*RESNET, precision="amp", batch_size=128), "says precision fp32"),
        ("dllogger", LOG, case(*RESNET, batch_size=256), "says batch_size 128"),
        ("dllogger", LOG, case(*RESNET, devices=4, batch_size=128), "says devices 8"),
        ("gluon-cv", upstream.gluon_cv(), case(*RESNET, batch_size=64), "says precision fp16"),
        ("oneflow", upstream.oneflow_cnn(), case(*RESNET, batch_size=96), "batch_size 128"),
        (
            "megatron",
            upstream.megatron(),
            case(*BERT, precision="amp", batch_size=8),
            "is of 32 samples a step, but the case's global batch is 64",
        ),
        (
            "oneflow",
            upstream.libai(10),
            case(*BERT, batch_size=2),
            "is of 32 samples a step, but the case's global batch is 16",
        ),
        (
            "tf-models",
            upstream.train_step() + upstream.time_history().replace(" 10", " 81"),
            ["framework=pytorch", *case(*BERT, batch_size=2)],
            "tensorflow/models (tensorflow), but the case says framework=pytorch",
        ),
    ],
)
def test_a_case_that_the_log_contradicts_is_refused(capsys, source, log, given, message, tmp_path):
    assert message in refused(capsys, tmp_path, source, log, case=given)


NAMESPACE_2019 = (
    "Namespace(amp=False, batch_size=1024, dtype='float16', gpus=[0, 1, 2, 3, 4, 5, 6, 7])\n"
)
DEEPSPEED = "".join(
    f"[2020-09-15 14:29:10,100] [INFO] [config.py:900:print]   {name} {value}\n"
    for name, value in {
        "bfloat16_enabled .............": "False",
        "fp16_enabled .................": "True",
        "gradient_accumulation_steps ..": "1",
        "train_batch_size .............": "256",
        "train_micro_batch_size_per_gpu ": "32",
        "world_size ...................": "8",
    }.items()
)
HUGECTR = (
    "gpu_num_per_node = 8\n"
    "[HCTR][14:29:12.123][INFO][RK0][main]: Training batchsize: 1024, evaluation batchsize: 512\n"
    "[HCTR][14:29:12.123][INFO][RK0][main]: Use mixed precision: True, scaler: 1024.0\n"
)
TF_MODELS = (
    "I0915 14:29:10.1 1 classifier_trainer.py:189] Final model parameters: {'mode': 'train',\n"
    " 'runtime': {'loss_scale': None,\n             'num_gpus': 8},\n"
    " 'train_dataset': {'batch_size': 128,\n                   'dtype': 'float16',\n"
    "                   'use_per_replica_batch_size': True},\n"
    " 'validation_dataset': {'batch_size': 64, 'dtype': 'float32'}}\n"
)
GLUON_NLP = (
    "INFO:root:Namespace(accumulate=1, batch_size=32, batch_size_eval=8, by_token=False, "
    "dtype='float16', gpus='0,1,2,3,4,5,6,7')\n"
)
#: A log that states its settings, more options, its window, the settings that are its own.
TOLD = {
    "DLLogger, MXNet": ("dllogger", upstream.dllogger_mxnet(), (), WINDOW, (128, 8, "amp")),
    "DLLogger, TensorFlow 1": (
        "dllogger",
        upstream.dllogger_tensorflow_benchmark(),
        (),
        (21, 100),
        (16, 8, "amp"),
    ),
    "DLLogger, BERT of 2023": (
        "dllogger",
        upstream.dllogger_bert_2023(),
        ("--global-batch-size", "2560"),
        (3, 100),
        (32, 8, "fp16"),
    ),
    "NVIDIA MXNet of 2019": (
        "gluon-cv",
        NAMESPACE_2019 + upstream.nvidia_mxnet_2019(),
        (),
        WINDOW,
        (128, 8, "fp16"),
    ),
    "gluon-cv": ("gluon-cv", upstream.gluon_cv(), (), WINDOW, (64, 8, "fp16")),
    "gluon-nlp": (
        "gluon-nlp",
        GLUON_NLP + upstream.gluon_nlp().partition("\n")[2],
        (),
        (19, 100),
        (32, 8, "fp16"),
    ),
    "tensorflow/models": (
        "tf-models",
        TF_MODELS + upstream.time_history(),
        (),
        (50, 100),
        (128, 8, "amp"),
    ),
    "PaddleClas": ("paddle", upstream.paddle_clas_static(), (), WINDOW, (64, 8, "amp")),
    "PaddleClas without a section AMP": (
        "paddle",
        upstream.paddle_clas_static(amp=False),
        (),
        WINDOW,
        (64, 8, "fp32"),
    ),
    "PaddleNLP": (
        "paddle",
        upstream.paddle_nlp_static()
        + "python -m paddle.distributed.launch --gpus=0,1,2,3,4,5,6,7 run_pretrain.py\n",
        (),
        WINDOW,
        (32, 8, "amp"),
    ),
    "OneFlow": ("oneflow", upstream.oneflow_cnn(), (), WINDOW, (128, 8, "fp32")),
    "MindSpore": (
        "mindspore",
        "{'batch_size': 32,\n 'device_num': 8,\n 'epoch_size': 90}\n" + upstream.mindspore(),
        (),
        WINDOW,
        (32, 8, ""),
    ),
    "HugeCTR": ("hugectr", HUGECTR + upstream.hugectr(), (), WINDOW, (128, 8, "amp")),
    "Megatron": ("megatron", upstream.megatron(), (), WINDOW, (4, 8, "fp16")),
    "DeepSpeed": (
        "deepspeed",
        DEEPSPEED + upstream.deepspeed(),
        (),
        WINDOW,
        (32, 8, "fp16"),
    ),
    "DeepSpeed of 2020, in micro-steps": (
        "deepspeed",
        DEEPSPEED + upstream.deepspeed_2020(),
        (),
        WINDOW,
        (32, 8, "fp16"),
    ),
    "MLPerf": ("mllog", upstream.mllog_resnet(), (), (3, 8), (16, 8, "")),
}
#: Other settings: (factor of the batch, of the devices, precision where the log says mixed, fp32).
FALSE = {
    "eight times the batch": (8, 1, ("amp", "fp32")),
    "the batch of all devices, of one": (8, 1 / 8, ("amp", "fp32")),
    "half the devices": (1, 1 / 2, ("amp", "fp32")),
    "half the devices, with twice the batch": (2, 1 / 2, ("amp", "fp32")),
    "the other precision": (1, 1, ("fp32", "amp")),
    "the other 16 bits": (1, 1, ("bf16", "bf16")),
}


def told_case(batch_size: float, devices: float, precision: str) -> list[str]:
    return [
        "workload=bert",
        "data=any",
        f"precision={precision}",
        "nodes=1",
        f"devices_per_node={int(devices)}",
        f"batch_size={int(batch_size)}",
    ]


@pytest.mark.parametrize("name", TOLD)
def test_what_a_log_says_of_batch_devices_and_precision_decides(capsys, name, tmp_path):
    """Its own case is taken; each other is refused, with the log's line and the case's value."""
    source, log, more, window, (batch_size, devices, precision) = TOLD[name]
    framework = ["framework=mxnet"] if source == "mllog" else []
    own = [*framework, *told_case(batch_size, devices, precision or "amp")]
    assert imported(tmp_path, source, log, case=own, window=window, more=more)
    (tmp_path / "rows.csv").unlink()
    for what, (batches, parts, others) in FALSE.items():
        other = others[precision == "fp32"] if others[0] != "amp" else precision or "amp"
        if others[0] != "amp" and (not precision or (precision, other) == ("amp", "bf16")):
            continue  # the log does not say the precision, or not which 16 bits
        false = [*framework, *told_case(batch_size * batches, devices * parts, other)]
        message = refused(capsys, tmp_path, source, log, case=false, window=window, more=more)
        assert re.search(r"line \d+ .*\bsays? .*, but the case", message) or (
            "the case's global batch is" in message
        ), (what, message)
        assert message.count("\n") == 1


def test_the_global_batch_is_the_logs_whatever_the_option_says(capsys, tmp_path):
    more = ["--global-batch-size", "2048"]
    for source, log, batch_size in (
        ("dllogger", upstream.dllogger_mxnet(), 128),  # says it
        ("paddle", upstream.paddle_clas_static(), 64),  # prints a rate and a duration
        ("paddle", upstream.paddle_nlp_static(), 32),  # prints avg_samples
    ):
        given = case(*RESNET, batch_size=batch_size, precision="amp")
        message = refused(capsys, tmp_path, source, log, case=given, more=more)
        assert re.search(r"but the case( says|'s global batch is) 2048 \(batch_size x dev", message)


@pytest.mark.parametrize(
    ("log", "devices", "unsaid"),
    [
        (upstream.dllogger_mxnet(), 8, ""),
        (upstream.dllogger_mxnet().partition("\n")[2], 8, "batch, devices, precision"),
        (upstream.dllogger_bert_tensorflow(ranks=8), 8, "batch, precision"),
    ],
)
def test_what_only_the_case_says_is_noted(log, devices, unsaid, tmp_path):
    batch_size = 48 if "throughput_train" in log else 128
    given = case(*BERT, batch_size=batch_size, devices=devices, precision="amp")
    (row, *_) = imported(tmp_path, "dllogger", log, case=given, window=WINDOW)
    assert (f"the log does not say: {unsaid};" in row["note"]) == bool(unsaid)
    assert ("does not say" in row["note"]) == bool(unsaid)


def test_an_accumulation_that_the_log_says_is_part_of_the_global_batch(capsys, tmp_path):
    given = case(*BERT, batch_size=32, precision="fp16")
    log = upstream.dllogger_bert_2023()
    message = refused(capsys, tmp_path, "dllogger", log, case=given, window=(3, 100))
    assert "says accumulation 10, but the case says 1" in message
    assert "--global-batch-size" in message


def test_a_log_that_does_not_tell_its_framework_needs_it(capsys, tmp_path):
    given = case(*RESNET, batch_size=16)
    message = refused(capsys, tmp_path, "mllog", upstream.mllog_resnet(), case=given, window=(3, 8))
    assert "--case: framework is missing" in message


def test_rates_of_another_batch_than_the_cases_are_refused(capsys, tmp_path):
    """The log does not say how many devices it ran on, but its rates do."""
    given = case(*RESNET, devices=1, batch_size=128)
    message = refused(
        capsys, tmp_path, "tf-models", upstream.time_history(), case=given, window=(50, 100)
    )
    assert "8 times what a global batch of 128 gives" in message


def test_a_batch_that_grows_inside_the_window_is_refused(capsys, tmp_path):
    log = upstream.megatron()
    log = re.sub(r"(iteration +[6-9]0/.*batch size: +)32", r"\g<1>48", log)
    given = case(*BERT, precision="amp", batch_size=4)
    message = refused(capsys, tmp_path, "megatron", log, case=given)
    assert "step 60) is of 48 samples a step" in message


def test_accumulated_steps_take_their_global_batch_from_an_option(tmp_path):
    given = case(*BERT, precision="amp", batch_size=1)
    more = ["--global-batch-size", "32"]
    rows = imported(tmp_path, "megatron", upstream.megatron(), case=given, window=WINDOW, more=more)
    assert clock(rows) == 32 * CLOCK


def test_lines_of_no_source_are_answered_with_the_nearest(capsys, tmp_path):
    log = upstream.dllogger_tensorflow_benchmark().replace("total_ips", "all_ips")
    message = refused(capsys, tmp_path, "dllogger", log)
    assert "no line as of NVIDIA DeepLearningExamples" in message
    assert f"line 6: DLL {upstream.at(21)} - Epoch: 0 Iteration: 20 all_ips" in message
    assert "PARAMETER" not in message.split("line 6")[0]


def test_a_step_that_has_no_line_is_answered_with_the_nearest_ones(capsys, tmp_path):
    given = case(*BERT, batch_size=32, precision="amp")
    log = upstream.paddle_nlp_static()
    message = refused(capsys, tmp_path, "paddle", log, case=given, window=(20, 75))
    assert "end of step 95 [the log has 10 to 150, nearest: 80, 90, 100, 110]" in message


def test_another_sources_log_is_answered_with_its_name(capsys, tmp_path):
    message = refused(capsys, tmp_path, "mindspore", upstream.deepspeed())
    assert "its lines are those of --source deepspeed" in message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([*EIGHT, "batch=3"], "--case batch=3: unknown key [allowed: framework, "),
        (
            EIGHT[1:],
            "workload=: is not a workload [allowed: bert, electra, electra_squad, gpt, ",
        ),
        (["workload=resnet", *EIGHT[1:]], "workload=resnet: is not a workload"),
        (EIGHT[:1], "--case: precision is missing"),
        ([*EIGHT[:-1], "batch_size=0"], "must be a whole number, at least 1"),
        ([*EIGHT[:-1], "batch_size=many"], "must be a whole number"),
        ([*EIGHT, "data=imagenet"], "data is given twice"),
        ([*EIGHT, "nonsense"], "must be key=value"),
        ([*EIGHT, "framework=torch"], "is not a framework [allowed: pytorch, "),
        ([*EIGHT, "image_size=x"], "image_size=x: must be a whole number"),
    ],
)
def test_a_wrong_case_gets_one_message(capsys, given, message, tmp_path):
    assert message in refused(capsys, tmp_path, "dllogger", LOG, case=given)


def test_a_split_model_has_its_batch_a_replica(capsys, tmp_path):
    """As records have: 8 devices in replicas of 2, each with 8 sequences."""
    case = ["workload=gpt", "precision=amp", "nodes=1", "devices_per_node=8", "data=tokens"]
    log, window = upstream.megatron(), (20, 100)
    rows = imported(
        *(tmp_path, "megatron", log),
        case=[*case, "batch_size=8", "tensor_parallel=2"],
        window=window,
    )
    assert clock(rows) == pytest.approx(32 * CLOCK)
    assert (rows[0]["batch_size"], rows[0]["tensor_parallel"]) == ("8", "2")
    (tmp_path / "rows.csv").unlink()
    for more, message in (
        (["batch_size=8"], "of 32 samples a step, but the case's global batch is 64"),
        (["batch_size=8", "tensor_parallel=3"], "8 devices cannot be split into replicas of 3"),
        (["batch_size=8", "accumulation=2"], "accumulation=2: unknown key"),
    ):
        found = refused(*(capsys, tmp_path, "megatron", log), case=[*case, *more], window=window)
        assert message in found


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--measured", "0"], "--measured 0: must be at least 1"),
        (["--warmup", "-1"], "--warmup -1: must be at least 0"),
        (["--run", "0"], "--run 0: must be a number from 1, or last"),
        (["--epoch", "7"], "no line of epoch 7"),
        (["--global-batch-size", "0"], "must be at least 1"),
    ],
)
def test_a_wrong_window_gets_one_message(capsys, more, message, tmp_path):
    assert message in refused(capsys, tmp_path, "dllogger", LOG, more=more)


# ---- the table


def test_a_row_has_the_case_its_dimensions_and_the_logs_sum(tmp_path):
    given = [*EIGHT, "image_size=192", "repetition=3", "compiler=inductor"]
    row = imported(tmp_path, "dllogger", LOG, case=given, window=WINDOW)[0]
    assert list(row) == [*COLUMNS, "image_size", "fold", "mixup"]  # what an import reads
    assert row["framework"] == "pytorch" and row["implementation"] == "NVIDIA DeepLearningExamples"
    assert (row["repetition"], row["compiler"], row["image_size"]) == ("3", "inductor", "192")
    (unsaid, *_) = imported(tmp_path, "dllogger", LOG, case=EIGHT, window=WINDOW)
    assert unsaid["compiler"] == ""  # neither the log nor the user has named one, or said 'none'
    assert (row["metric"], row["unit"]) == ("throughput", "images/s")
    assert re.fullmatch(r"rank0\.log sha256:[0-9a-f]{64}", row["source"])


def test_repetitions_are_added_to_a_table_and_none_twice(capsys, tmp_path):
    def add(log: str, repetition: int):
        given = [*EIGHT, f"repetition={repetition}"]
        return imported(tmp_path, "dllogger", log, case=given, window=WINDOW, more=["--append"])

    later = upstream.dllogger_pytorch(start=upstream.START + timedelta(hours=1))
    assert len(add(LOG, 1)) == 2
    assert len(add(later, 2)) == 4
    assert add(LOG, 3) is None
    assert "line 2 is of this log already" in capsys.readouterr().err
    assert add(upstream.dllogger_pytorch(start=datetime(2021, 1, 1)), 2) is None
    assert "line 4 is this repetition of this case already" in capsys.readouterr().err
    with (tmp_path / "rows.csv").open(newline="") as stream:
        assert [row["repetition"] for row in csv.DictReader(stream)] == ["1", "1", "2", "2"]


# ---- properties

FEW = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
#: What stands between the lines of real logs, and anything else that has no line's end.
NOISE = st.one_of(
    st.sampled_from(
        [
            "libibverbs: Warning: no userspace device-specific driver found",
            "DLL 2020-09-15 14:29:14.1 - PARAMETER loss_scale : 65536.0",
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
            "Epoch: 0 Iteration: 12",
            "Iteration:  12%|█▏        | 12/100 [00:04<00:30,  2.9it/s]",
            "2020-09-15 14:29:15.100: I tensorflow/core/platform/cpu.cc:142] 23:59:59",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=80),
)


@FEW
@given(st.lists(st.tuples(st.integers(0, 31), NOISE), max_size=20))
def test_lines_between_never_change_the_figure(tmp_path, noise):
    lines = SHORT.splitlines(True)
    for place, text in noise:
        lines.insert(place, f"{text}\n")
    rows = imported(tmp_path, "dllogger", "".join(lines), case=EIGHT, window=SHORT_WINDOW)
    assert clock(rows) == RIGHT


@FEW
@given(st.sets(st.integers(1, 30), min_size=1, max_size=6))
def test_lines_that_are_lost_are_noticed_where_they_matter(tmp_path, lost):
    log = without(SHORT, *lost)
    rows = imported(tmp_path, "dllogger", log, case=EIGHT, window=SHORT_WINDOW)
    if any(6 <= step <= 26 for step in lost):
        assert rows is None
    else:
        assert clock(rows) == RIGHT


@FEW
@given(st.integers(0, len(SHORT)))
def test_a_log_cut_anywhere_gives_the_right_figure_or_none(tmp_path, length):
    rows = imported(tmp_path, "dllogger", SHORT[:length], case=EIGHT, window=SHORT_WINDOW)
    whole = SHORT[:length].count("\n") >= SHORT[: SHORT.index("Iteration: 26 ")].count("\n") + 1
    assert (clock(rows) == RIGHT) if whole else rows is None


@FEW
@given(st.integers(0, 2**32))
def test_the_order_in_which_ranks_write_does_not_matter(tmp_path, seed):
    dice = random.Random(seed)
    ranks = labelled(SHORT, 8)
    together = []
    while any(ranks):
        together.append(dice.choice([lines for lines in ranks if lines]).pop(0))
    rows = imported(tmp_path, "dllogger", "".join(together), case=EIGHT, window=SHORT_WINDOW)
    assert clock(rows) == pytest.approx(1024 * 20 / 4.0007, rel=1e-5)
