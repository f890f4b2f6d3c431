"""
What all other rule files use: the round's config and cases, and functions from wildcards to files.

Nothing here reads results but the statuses of what is to be tried again, so that parsing stays
cheap: every cluster job parses the workflow anew.
"""

import atexit
import fcntl
import gc
import hashlib
import json
import os
import shlex
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

SCRIPTS = str(Path(workflow.basedir) / "scripts")
sys.path.insert(0, SCRIPTS)

from dlperf import inside_snakemake, plan, workloads
from dlperf.contract import files, storage
from dlperf.data import loaders
from dlperf.analysis.round import names
from dlperf.inside_snakemake import of_each_job

# Only this package is on the path of what the rules start, whatever the user's PYTHONPATH says.
shell.prefix(f"export PYTHONPATH={shlex.quote(SCRIPTS)}; ")

PYTHON = sys.executable
SOURCE = ", ".join(os.path.relpath(path) for path in workflow.configfiles)

# Of one call, not of the round, so in none of its files: what `audit` audits in place of the round's
# folder, where it writes what it found, the sha256 that it expects, and whether the round may have
# been computed with other versions; what `compare` compares it with and by, and whether certificates that come with the code
# are made anew (`--config certificates=remake`).
ARCHIVE = config.pop("archive", None)
AUDITED = config.pop("out", None)
EXPECTED_SHA256 = str(config.pop("sha256", ""))
OTHER_VERSIONS = str(config.pop("allow_other_versions", "false")).lower()
if OTHER_VERSIONS not in ("true", "false"):
    raise WorkflowError(
        f"--config allow_other_versions={OTHER_VERSIONS}: allowed are true and false"
    )
CERTIFICATES = config.pop("certificates", "released")
REMAKE = CERTIFICATES == "remake"
if CERTIFICATES not in ("released", "remake"):
    raise WorkflowError(f"--config certificates={CERTIFICATES}: allowed are released and remake")
COMPARISON = {key: config.pop(key) for key in ("baseline", "tolerance", "metric") if key in config}

try:
    CONFIG = plan.load(config, SOURCE)
except plan.ConfigError as error:
    raise WorkflowError(str(error)) from None

ROUND = CONFIG.round
RESULTS = f"results/{ROUND}"
CONFIG_TEXT = plan.dump(CONFIG)
CONFIG_SHA256 = hashlib.sha256(CONFIG_TEXT.encode()).hexdigest()
CASES = plan.expand(CONFIG)
FRAMEWORKS = CONFIG.frameworks
REPETITIONS = range(1, CONFIG.repetitions + 1)

# What starts first where several jobs could: all that others wait for. Repetitions have the number
# of their turn, from 1.
FIRST = 3_100_000  # what references need; what is compiled, for a minute
REFERENCE = 3_001_000  # and the millions of parameters: the longest first, beside what is built
ENVIRONMENT = 3_000_000
CERTIFICATE = 1_000_000  # before what is measured: its speeds would not count
SCREEN = 900_000  # near to the repetitions that it is a limit of

RECORD = f"{RESULTS}/runs/{{workload}}/{{framework}}/{{case}}/rep{{repetition}}.json"


wildcard_constraints:
    workload="[a-z0-9_]+",
    framework="[a-z0-9_]+",
    case="[a-z0-9_-]+",
    repetition="[0-9]+",
    device="cpu|cuda",


@cache
def cases_by_folder():
    return {case.folder: case for case in CASES}


def case_of(wildcards):
    """The case that a record's path names."""
    folder = f"{wildcards.workload}/{wildcards.framework}/{wildcards.case}"
    case = cases_by_folder().get(folder)
    if case is None or int(wildcards.repetition) not in REPETITIONS:
        raise WorkflowError(
            f"{RESULTS}/runs/{folder}/rep{wildcards.repetition}.json: not in the round of {SOURCE}; "
            "`snakemake --profile local plan` lists what is"
        )
    return case


@cache
def records(wildcards=None):
    """Every record of the round; what a framework cannot do has none."""
    return [
        f"{RESULTS}/runs/{case.folder}/rep{repetition}.json"
        for case in CASES
        if not case.unsupported
        for repetition in REPETITIONS
    ]


def all_cores(on_cluster):
    """Threads of a job that has the machine to itself; on a cluster it asks for `on_cluster`.

    For functions only: while Snakemake parses, it does not know yet where jobs will run.
    """
    return workflow.cores if workflow.local_exec else on_cluster


def environment_of(framework):
    return f"results/environments/{framework}.{CONFIG.device}/env.json"


def manifest_of_case(case):
    """The manifest of a case's data; [] where that is synthetic."""
    folder = loaders.folder(case)
    return f"results/data/{folder}/manifest.json" if folder else []


def final_output(wildcards):
    return [
        f"{RESULTS}/report.html",
        f"{RESULTS}/tables.md",
        *(
            f"{RESULTS}/tables/{name}.{kind}"
            for name in names.table_ids(CASES)
            for kind in ("tsv", "md", "html")
        ),
        *(
            f"{RESULTS}/figures/{name}.{kind}"
            for name in names.figure_ids(CASES)
            for kind in ("svg", "png")
        ),
    ]


def outcome(path):
    """(status, reason) of a record; ('', '') where there is none."""
    try:
        with open(path) as stream:
            record = json.load(stream)
    except FileNotFoundError:
        return "", ""
    return record["status"], record["reason"]


# An input of what must be made again although it is there: newer than everything. (The profiles
# do not ask for a rerun where the set of inputs changes.)
AGAIN = "results/.again"
if workflow.is_main_process:
    try:
        # its content changes too: Snakemake compares checksums of small files before it trusts a time
        files.write(AGAIN, f"{time.time_ns()}\n")
    except OSError as error:
        if error.errno not in storage.SHUT:
            raise WorkflowError(storage.message(error, AGAIN)) from None
        # An auditor may only read; a dry run wants to see the file. It goes when Snakemake ends.
        stand_in = tempfile.NamedTemporaryFile(prefix="dlperf-again-")
        AGAIN = stand_in.name


def again_if(wanted):
    return AGAIN if wanted else []


onstart:
    gc.freeze()
    gc.enable()
    inside_snakemake.stop_waking(workflow)
    inside_snakemake.stop_on_signals()
    inside_snakemake.say_progress(workflow)
    global makes_report
    makes_report = any(job.rule.name == "report_page" for job in workflow.dag.needrun_jobs())
    # The profiles switch Snakemake's own lock off: it outlives `kill -9`. The kernel frees this one.
    # Where nothing can be written there is nothing to lock.
    global folder_lock
    try:
        os.makedirs("results", exist_ok=True)
        folder_lock = open("results/.lock", "a+")
    except OSError as error:
        if error.errno not in storage.SHUT:
            raise WorkflowError(storage.message(error)) from None
    else:
        try:
            fcntl.flock(folder_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WorkflowError(
                "another Snakemake is at work in this folder; wait for it, or end it with Ctrl-C"
            ) from None
    makes = {"environment", "fetch", "images", "documents", "examples"}
    if any(job.rule.name in makes for job in workflow.dag.needrun_jobs()):
        from dlperf.plan import estimate

        if message := estimate.check_disk(CONFIG, CASES):
            raise WorkflowError(message)


onsuccess:
    # behind all that Snakemake says
    if makes_report:
        atexit.register(print, f"Report: {RESULTS}/report.html", flush=True)
