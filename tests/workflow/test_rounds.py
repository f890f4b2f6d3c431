"""The workflow as its users call it: real Snakemake runs in a copy of the repository."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import ROOT, SMALL_ROUND, snakemake, the_first

from dlperf.plan import dump, load


@pytest.fixture
def small(checkout: Path, certificates, sample_data) -> Path:
    write_round(checkout)
    return checkout


def write_round(folder: Path, **changes) -> None:
    (folder / "config/config.yaml").write_text(yaml.safe_dump({**SMALL_ROUND, **changes}))


def records(folder: Path) -> dict[str, bytes]:
    runs = folder / "results/small/runs"
    return {str(path.relative_to(runs)): path.read_bytes() for path in runs.rglob("rep*.json")}


def rows(path: Path) -> list[dict[str, str]]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def no_process_of(folder: Path) -> bool:
    """Whether everything that was started in `folder` has ended, within a minute."""

    def alive():
        for process in psutil.process_iter(["cwd", "cmdline"]):
            inside = str(process.info["cwd"] or "").startswith(str(folder))
            if inside and "dlperf.measure" in " ".join(process.info["cmdline"] or []):
                yield process

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not list(alive()):
            return True
        time.sleep(0.2)
    return False


def start(folder: Path, output=subprocess.DEVNULL) -> subprocess.Popen:
    """`snakemake --profile local all` in its own process group, as in a terminal."""
    command = [str(Path(sys.executable).parent / "snakemake"), "--profile", "local", "all"]
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def wait_for_records(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 180
    while len(records(folder)) < count:
        assert time.monotonic() < deadline, "the round does not get on"
        time.sleep(0.1)


def test_what_is_missing_is_measured_in_the_call_that_builds_an_environment_anew(small):
    """Not in the next one only."""
    record = "runs/resnet50/pytorch/train-fp32-1n1d-b2-sample-px32/rep1.json"
    (small / "results/environments").unlink()  # a link to those that other tests share
    there = small / "results/environments/pytorch.cpu/env.json"
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    os.utime(there, (1, 1))  # older than its definition
    said = snakemake("-n", f"results/small/{record}", cwd=small)
    assert re.search(r"environment +1\b.*repetition +1\b", said.stdout + said.stderr, re.DOTALL)


def test_a_round_goes_from_config_to_report(measured_round):
    small = measured_round
    result = small / "results/small"
    measurements = rows(result / "measurements.tsv.gz")
    assert len(measurements) == 2 * 2 * 2
    assert {row["status"] for row in measurements} == {"ok"}
    spans = sorted((row["window_start_utc"], row["window_end_utc"]) for row in measurements)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False)), (
        "repetitions overlapped"
    )
    assert (result / "report.html").stat().st_size > 10000
    assert (result / "figures/resnet50-train-fp32-b2-scaling.svg").exists()
    # every repetition of one framework has the others' between its own
    turns = sorted(measurements, key=lambda row: row["window_start_utc"])
    order = [row["framework"] for row in turns]
    assert any(first != second for first, second in zip(order, order[1:], strict=False))

    again = snakemake("-n", "all", cwd=small)
    assert "Nothing to be done" in again.stdout + again.stderr

    before = time.monotonic()
    figure = result / "figures/resnet50-train-fp32-b2-scaling.svg"
    made = figure.read_bytes()
    figure.unlink()
    snakemake(
        "--", *(f"results/small/figures/{figure.stem}.{kind}" for kind in ("svg", "pdf")), cwd=small
    )
    print(f"one figure, also as PDF: {time.monotonic() - before:.1f} s")
    assert figure.read_bytes() == made
    assert figure.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")
    # what was made on request does not grow old: `all` draws it again when its cells change
    cells = result / "cells.tsv"
    stored, times = cells.read_bytes(), cells.stat()
    cells.write_bytes(stored.replace(b"images/s", b"pictures/s"))
    again = snakemake("-n", "all", cwd=small)
    assert "figure pdf" in again.stdout + again.stderr
    cells.write_bytes(stored)
    os.utime(cells, ns=(times.st_atime_ns, times.st_mtime_ns))

    snakemake("--report", "audit.html", cwd=small)
    page = (small / "audit.html").read_text()
    assert "Tables" in page and "Figures" in page


@pytest.mark.usefixtures("heeding_ctrl_c")
@pytest.mark.parametrize("number", the_first(1, [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
def test_a_stopped_round_goes_on_with_what_is_missing(small, number):
    write_round(small, topologies=["1n1d"], repetitions=2)
    with open(small / "said", "w") as said:
        process = start(small, said)
    try:
        wait_for_records(small, 1)
        if number == signal.SIGINT:  # Ctrl-C reaches the whole group
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.wait(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    if number != signal.SIGKILL:
        said_last = (small / "said").read_text().rstrip().splitlines()[-1]
        assert said_last == "Stopped. The same command resumes."
    assert no_process_of(small)
    before = records(small)
    assert 1 <= len(before) < 4
    for content in before.values():
        assert json.loads(content)["status"] == "ok"

    snakemake("all", cwd=small)
    after = records(small)
    assert len(after) == 4
    assert {name: after[name] for name in before} == before, "a recorded repetition ran again"
    assert (small / "results/small/report.html").exists()


@pytest.mark.usefixtures("heeding_ctrl_c")
def test_ctrl_c_while_the_workflow_is_read_is_a_line_and_no_traceback(checkout):
    with open(checkout / "Snakefile", "a") as stream:
        stream.write('\nopen("results/read", "w").close()\n__import__("time").sleep(60)\n')
    with open(checkout / "said", "w") as said:
        process = start(checkout, said)
    try:
        deadline = time.monotonic() + 60
        while not (checkout / "results/read").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=30) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    lines = (checkout / "said").read_text().splitlines()
    assert lines[-1] == "Stopped. The same command resumes."
    assert "Traceback" not in "".join(lines)


@pytest.mark.full
@pytest.mark.usefixtures("in_background")
def test_a_round_in_the_background_ignores_ctrl_c_and_sigterm_stops_all_of_it(small):
    write_round(small, topologies=["1n1d"], repetitions=3)
    process = start(small)
    try:
        wait_for_records(small, 1)
        os.killpg(process.pid, signal.SIGINT)
        wait_for_records(small, 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert no_process_of(small)
    assert 2 <= len(records(small)) < 6


def test_two_rounds_at_once_are_refused_and_the_first_leaves_the_machine_alone(small):
    write_round(small, topologies=["1n1d"], repetitions=3)
    process = start(small)
    try:
        wait_for_records(small, 1)
        second = snakemake("all", cwd=small, check=False)
        assert second.returncode != 0
        assert "another Snakemake is at work in this folder" in second.stderr + second.stdout
        wait_for_records(small, 6)
        # each repetition that ended would leave a timer, which wakes the scheduler every second
        assert psutil.Process(process.pid).num_threads() <= 8  # 5; with the timers 12
        assert process.wait(timeout=200) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_round_on_one_device_takes_the_environments_of_one_on_two(small):
    """Another command would build anew, and make the certificates of all rounds anew."""
    names = [f"results/environments/{name}.cpu/env.json" for name in ("tensorflow1", "mxnet")]
    commands = []
    for topology in ("1n2d", "1n1d"):
        write_round(small, frameworks=["tensorflow1", "mxnet"], topologies=[topology])
        # without the profile, whose progress shows no commands
        command = [Path(sys.executable).parent / "snakemake", "-np", "--cores", "1", "--force"]
        done = subprocess.run([*command, "--", *names], cwd=small, capture_output=True, text=True)
        found = re.findall(r"-m dlperf.environments build .*", done.stdout + done.stderr)
        commands.append(sorted(found))
    assert commands[0] == commands[1] and len(commands[0]) == 2
    assert sum("--distributed" in command for command in commands[0]) == 1  # Horovod


def test_a_framework_that_cannot_be_had_leaves_the_others(small):
    write_round(
        small,
        frameworks=["mxnet", "jax"],
        topologies=["1n1d"],
        repetitions=1,
        environments={"interpreters": {"jax": sys.executable}},  # a Python without JAX
    )
    (small / "results/environments").unlink()
    (small / "results/environments").mkdir()
    (small / "results/certificates").unlink()
    (small / "results/certificates/resnet50").mkdir(parents=True)
    for shared in ("environments/mxnet.cpu", "environments/pytorch.cpu") + tuple(
        f"certificates/resnet50/{name}" for name in ("reference", "mxnet")
    ):
        (small / "results" / shared).symlink_to(ROOT / "results" / shared)
    snakemake("all", cwd=small)
    status = {row["framework"]: row for row in rows(small / "results/small/measurements.tsv.gz")}
    assert status["mxnet"]["status"] == "ok"
    assert status["jax"]["status"] == "crashed"
    assert status["jax"]["reason"].startswith("no environment")
    assert "no environment" in (small / "results/small/report.html").read_text()


@pytest.mark.full
def test_what_failed_is_tried_again_when_the_config_says_so(small):
    write_round(small, frameworks=["mxnet"], topologies=["1n1d"], repetitions=2)
    snakemake("all", cwd=small)
    failed = small / "results/small/runs/resnet50/mxnet/train-fp32-static-1n1d-b2-sample-px32"
    record = json.loads((failed / "rep1.json").read_text())
    (failed / "rep1.json").write_text(json.dumps({**record, "status": "crashed", "reason": "x"}))
    kept = (failed / "rep2.json").read_bytes()
    snakemake("all", cwd=small)
    assert json.loads((failed / "rep1.json").read_text())["status"] == "crashed"
    write_round(small, frameworks=["mxnet"], topologies=["1n1d"], repetitions=2, retry=["crashed"])
    snakemake("all", cwd=small)
    assert json.loads((failed / "rep1.json").read_text())["status"] == "ok"
    assert (failed / "rep2.json").read_bytes() == kept
    again = snakemake("-n", "all", cwd=small)
    assert "Nothing to be done" in again.stdout + again.stderr


def test_an_unknown_figure_is_answered_with_the_nearest_name(small):
    done = snakemake(
        "-n", "results/small/figures/resnet50-train-fp32-b2-scalin.svg", cwd=small, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "resnet50-train-fp32-b2-scaling" in said
    assert "Traceback" not in said


def test_a_wrong_config_is_answered_with_all_its_problems(small):
    write_round(small, frameworks=["pytorhc"], repetitions=0, colour="red")
    done = snakemake("-n", "all", cwd=small, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    for word in ("config/config.yaml", "pytorhc", "pytorch", "repetitions", "colour"):
        assert word in said
    assert "Traceback" not in said


def test_a_round_given_by_file_is_whole_in_itself(small):
    done = snakemake("--configfile", "config/rounds/dlperf-v1.yaml", "--", "plan", cwd=small)
    assert "Round dlperf-v1" in done.stdout


def test_a_file_over_a_round_changes_it(checkout):
    files = ["config/rounds/dlperf-v1.yaml", "config/rounds/dlperf-v1/synthetic.yaml"]
    done = snakemake("--configfile", *files, "--", "plan", cwd=checkout)
    assert "Round dlperf-v1-synthetic" in done.stdout and "imagenet" not in done.stdout
    found = load([checkout / file for file in files])
    written = checkout / "results/dlperf-v1-synthetic/config.yaml"
    assert load(written) == found and written.read_text() == dump(found)
    alone = snakemake("--configfile", files[1], "--", "plan", cwd=checkout, check=False)
    assert f"{files[1]}: device: is missing" in alone.stdout + alone.stderr


def test_a_framework_that_comes_as_a_container_is_pulled_where_that_is_asked_for(
    checkout, tmp_path, monkeypatch
):
    """There is no engine here: a script in its place says how it is called, and fails."""
    engine = tmp_path / "bin/apptainer"
    engine.parent.mkdir()
    engine.write_text('#!/bin/sh\necho "called with $*"; exit 255\n')
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
    (checkout / "results/environments").unlink()  # a link to those that other tests share
    target = "results/environments/hugectr.cuda/env.json"
    for options, expected in (
        (
            ["--sdm", "apptainer"],
            r"container: docker://\S+: called with pull --force \S+/image.sif",
        ),
        ([], "comes as a container only .* call Snakemake with `--sdm apptainer`"),
    ):
        snakemake(*options, "--", target, cwd=checkout)
        reason = json.loads((checkout / target).read_text())["reason"]
        assert re.search(expected, reason), reason


@pytest.mark.parametrize("target", the_first(1, ["all", "plan", "results/small/report.html"]))
def test_conda_in_a_config_without_snakemakes_option_is_refused_at_the_start(checkout, target):
    """Where it would end in the first job; environments that are there do not change that."""
    text = yaml.safe_dump({**SMALL_ROUND, "environments": {"backend": "conda"}})
    (checkout / "config/config.yaml").write_text(text)
    done = snakemake(target, cwd=checkout, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert said.count("config/config.yaml: environments.backend: conda: ") == 1
    assert "`snakemake --profile conda …`" in said and "Traceback" not in said
    assert not (checkout / "results/small").exists()


@pytest.mark.parametrize(
    ("environments", "target"),
    the_first(
        1,
        [
            ({"backend": "conda"}, "audit"),
            ({"backend": "conda"}, "archive"),
            (
                {
                    "backend": "conda",
                    "interpreters": dict.fromkeys(SMALL_ROUND["frameworks"], "py"),
                },
                "plan",
            ),
        ],
    ),
)
def test_what_needs_nothing_of_conda_needs_no_option(checkout, environments, target):
    text = yaml.safe_dump({**SMALL_ROUND, "environments": environments})
    (checkout / "config/config.yaml").write_text(text)
    snakemake("-n", target, cwd=checkout)
