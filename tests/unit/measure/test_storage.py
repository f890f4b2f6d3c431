"""A disk that is full, or may not be written: one message, which names the file."""

import errno
import os
import sys

import disks
import pytest
from conftest import ROOT

from dlperf.contract import storage


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "rep1.json: the disk is full; make room and run the same command again"),
        (errno.EDQUOT, "rep1.json: the quota of this disk is used up; make room and run the same"),
        (errno.EROFS, "rep1.json: is on a disk that is mounted read-only"),
        (errno.EACCES, "rep1.json: may not be read or written by this user"),
        (errno.EIO, "rep1.json: Input/output error"),
    ],
)
def test_what_stops_a_file_is_said(number, told):
    assert storage.message(OSError(number, os.strerror(number)), "rep1.json").startswith(told)
    assert storage.message(OSError(number, os.strerror(number), "rep1.json")).startswith(told)


def test_the_file_is_named_not_what_it_is_written_to_first():
    error = OSError(errno.EROFS, "", "results/laptop/.cells.tsv.123.part")
    assert storage.message(error).startswith("results/laptop/cells.tsv: is on a disk")


#: A command that writes a file into the folder {0}, as Python.
WRITES = {
    "a record": """
from dlperf.measure import __main__ as command, stopwatch
stopwatch.measure = lambda *_, **__: {"provenance": {"start_utc": ""}, "more": "x" * 10**6}
command.load = lambda *_: {"identity": {"framework": "jax", "compiler": "xla"}}
command.main(["--case", "", "--out", "{0}/rep1.json"])
""",
    "a calibration": """
from dlperf.measure import probe
probe.probe = lambda _: {"more": "x" * 10**6}
probe.main(["--environment", "", "--out", "{0}/node1.json"])
""",
    "a certificate": """
from dlperf.certify import __main__ as command
command.certify = lambda _: {"more": "x" * 10**6}
command.Path.exists = lambda _: True
command.main(["--workload=resnet50", "--framework=jax", "--reference=", "--data-dir=",
              "--environment=", "--out", "{0}/cpu.json"])
""",
    "a plan": """
import runpy, sys
sys.argv[1:] = ["tsv"]
sys.stdout = open("{0}/plan.tsv", "w")
runpy.run_module("dlperf.plan", run_name="__main__")
""",
    "a table": """
import sys
from dlperf.analysis import __main__ as command
from dlperf.analysis.round import cells
from dlperf.contract import files
cells.cells = lambda *options: files.write(options[-1], "x" * 10**6)
read = ["--measurements", "none", "--certificates", "none", "--checks", "none"]
sys.exit(command.main(["cells", *read, "--out", "{0}/cells.tsv"]))
""",
}


@pytest.mark.parametrize("written", WRITES.values(), ids=WRITES)
def test_a_full_disk_is_said_in_one_line(tmp_path, written):
    code = written.replace("{0}", str(tmp_path))
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = disks.run([sys.executable, "-c", code], tmp_path, disks.FULL, cwd=ROOT, env=environ)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(": the disk is full; make room and run the same command again")
