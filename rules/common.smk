"""
What the other rule files use: the round's config and cases, and functions from wildcards to files.

This file reads no results except the statuses of repetitions that may be tried again. So parsing
stays cheap, as every cluster job parses the workflow again.
"""

import atexit
import copy
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

from dlperf import plan, workloads
from dlperf.contract import files, storage
from dlperf.workloads import inputs
from dlperf.analysis import steps
from dlperf.analysis.round import names, verdicts
from dlperf.inside_snakemake import of_each_job

# A module leaves alone what the whole process shares with the rules of its user.
if not IS_MODULE:
    # What Snakemake builds before the first job starts is kept, and looking for garbage in it
    # repeatedly takes a quarter of the time of a large round's dry run. (Switched on again in
    # onstart.)
    gc.disable()
    if workflow.is_main_process:
        inside_snakemake.end_quietly()
        inside_snakemake.nothing_is_incomplete()
        if message := inside_snakemake.refuse_own_folder():
            raise WorkflowError(message)
inside_snakemake.keep_records(workflow)

# What the rules start has only this package on its path, whatever the user's PYTHONPATH is, and
# reads and prints UTF-8, whatever the locale. It is joined to commands and not a {name} in them,
# which Snakemake does not look up in a module.
VARIABLES = [f"PYTHONPATH={SCRIPTS}", "PYTHONUTF8=1", "PYTHONIOENCODING=utf-8"]
PYTHON = shlex.join(["env", *VARIABLES, sys.executable])
PYTHON = PYTHON.replace("{", "{{").replace("}", "}}")
SOURCE = ", ".join(os.path.relpath(path) for path in workflow.configfiles) or "config"
# A module's config may be the very mapping that its user's rules read.
config = copy.deepcopy(config)

# What was written, for messages. Numbers in a section of `--config` become numbers here.
ARGUMENTS = plan.take_arguments(config, workflow.config_settings.config_args)

# These belong to one call and not to the round, so they are in none of its files: what `audit`
# audits instead of the round's folder, where it writes its findings, the sha256 that it expects, and
# whether the round may have been computed with other versions; the baseline and the metric of
# `compare`; and whether certificates that come with the code are made again (`--config
# certificates=remake`).
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
    written = {}
    if workflow.is_main_process:
        for path in workflow.configfiles:  # a key that stands twice is lost in what Snakemake read
            written |= plan.read_written(Path(path), os.path.relpath(path))[1]
    CONFIG = plan.load(config, SOURCE, plan.Written(written | ARGUMENTS))
    ROUNDS_BESIDE = plan.check_beside(CONFIG, SOURCE)
except plan.ConfigError as error:
    raise WorkflowError(str(error)) from None

ROUND = CONFIG.round
RESULTS = f"results/{ROUND}"
CONFIG_TEXT = plan.dump(CONFIG)
CONFIG_SHA256 = hashlib.sha256(CONFIG_TEXT.encode()).hexdigest()
CASES = plan.expand(CONFIG)
FRAMEWORKS = CONFIG.all_frameworks
REPETITIONS = range(1, CONFIG.repetitions + 1)

# Job priorities: what others wait for starts first. Repetitions have a priority by their turn, from
# 1.
FIRST = 3_100_000  # what references need, and what takes a minute to compile
REFERENCE = 3_001_000  # plus the millions of parameters, so that the longest starts first
ENVIRONMENT = 3_000_000
CERTIFICATE = 1_000_000  # before repetitions, whose speeds do not count without it
SEARCHES = 950_000  # before the repetitions that wait for what they find
SCREEN = 900_000  # close in time to the repetitions whose limit it gives

# What starts processes on several nodes, and the network between them. It is part of commands and
# not a parameter of rules, because then another network name would make Snakemake measure again.
_gres = f"--gres={CONFIG.cluster.gres}:{{devices}}" if CONFIG.device == "cuda" else ""
_launcher = CONFIG.cluster.launcher.replace("{gres}", _gres).strip()
OVER_NODES = (
    f"--launcher {shlex.quote(_launcher)} --interface={shlex.quote(CONFIG.cluster.interface)}"
)

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


def repetition_of(wildcards):
    """Which repetition a path is of; a search's document is that of the first."""
    return int(wildcards.get("repetition", 1))


def case_of(wildcards):
    """The case that the path of a record or of a search names."""
    folder = f"{wildcards.workload}/{wildcards.framework}/{wildcards.case}"
    case = cases_by_folder().get(folder)
    number = repetition_of(wildcards)
    if case is None or number not in REPETITIONS:
        raise WorkflowError(
            f"{RESULTS}/runs/{folder}/rep{number}.json: not in the round of {SOURCE}; "
            "`snakemake --profile local plan` lists what is"
        )
    return case


@cache
def records(wildcards=None):
    """Every record of the round; unsupported cases have none."""
    return [
        f"{RESULTS}/runs/{case.folder}/rep{repetition}.json"
        for case in CASES
        if not case.unsupported
        for repetition in REPETITIONS
    ]


def all_cores(on_cluster):
    """The threads of a job that has the machine to itself; `on_cluster` on a cluster.

    Call it only in functions: while Snakemake parses, it does not know yet where jobs will run.
    """
    return workflow.cores if workflow.local_exec else on_cluster


def cores_of_node(devices):
    """The threads of a job that has a node to itself: all of its cores, if the config says how many,
    or else those that so many devices need at least."""
    return all_cores(max(devices * CONFIG.cores_per_device, CONFIG.cluster.cores))


def environment_of(framework):
    return f"results/environments/{framework}.{CONFIG.device}/env.json"


@cache
def manifests_of_case(case):
    """The manifests of a case's data, and of what it is tested with; [] if that is synthetic."""
    return [f"results/data/{folder}/manifest.json" for folder in inputs.folders(case)]


def final_output(wildcards):
    return [
        *lost_parts(),
        f"{RESULTS}/report.html",
        f"{RESULTS}/tables.md",
        *(
            f"{RESULTS}/tables/{name}.{kind}"
            for name in names.table_ids(CASES)
            for kind in names.TABLED
        ),
        *(
            f"{RESULTS}/figures/{name}.{kind}"
            for name in FIGURES + FIGURES_BESIDE
            for kind in names.DRAWN
        ),
        *made_on_request(),
    ]


def lost_parts():
    """What was deleted of a complete round, by hand. Snakemake makes no missing file if what was made
    from it is there; the plan calls it missing."""
    if not os.path.exists(f"{RESULTS}/measurements.tsv.gz"):
        return []  # everything is made for the sake of this
    parts = [*records(), *searches(), *certificates_of(), *spot_checks()]
    return [path for path in parts if not os.path.exists(path)]


def made_on_request():
    """What the round has of tables and figures that are made on request: `all` renews them too."""
    paths = [
        *(f"tables/{name}.{kind}" for name in OTHERS for kind in names.TABLED),
        *(f"figures/{name}.{kind}" for name in OTHERS for kind in names.DRAWN),
        *(
            f"figures/{name}.{kind}"
            for name in FIGURES + OTHERS + FIGURES_BESIDE
            for kind in names.DRAWN_ON_REQUEST
        ),
    ]
    return [f"{RESULTS}/{path}" for path in paths if os.path.exists(f"{RESULTS}/{path}")]


def outcome(path):
    """(status, reason) of a record; ('', '') if there is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            record = json.load(stream)
        return str(record["status"]), str(record["reason"])
    except FileNotFoundError:
        return "", ""
    except (ValueError, KeyError, TypeError):
        raise WorkflowError(
            f"{path}: is no record; move it away, and the same command measures it again"
        ) from None


# An input of existing files that must be made again: it is newer than everything. (The profiles do
# not rerun a job because its set of inputs changed.)
AGAIN = "results/.again"
if workflow.is_main_process:
    try:
        # its content changes too, because Snakemake compares checksums of small files as well
        files.write(AGAIN, f"{time.time_ns()}\n")
    except OSError as error:
        if error.errno not in storage.SHUT:
            raise WorkflowError(storage.message(error, AGAIN)) from None
        # An auditor may only read; a dry run wants to see the file. It goes when Snakemake ends.
        stand_in = tempfile.NamedTemporaryFile(prefix="dlperf-again-")
        AGAIN = stand_in.name


def again_if(wanted):
    return AGAIN if wanted else []


# The user of a module can give its rules other names.
name_of = workflow.modifier.modify_rulename


onstart:
    gc.freeze()
    gc.enable()
    inside_snakemake.stop_waking(workflow)
    inside_snakemake.stop_on_signals()
    inside_snakemake.say_progress(workflow)
    inside_snakemake.end_forgotten_jobs(workflow)
    global makes_report
    makes_report = any(
        job.rule.name == name_of("report_page") for job in workflow.dag.needrun_jobs()
    )
    # The profiles switch off Snakemake's own lock, which outlives `kill -9`. The kernel frees this
    # one. In a folder that may only be read there is nothing to lock.
    global folder_lock
    now = time.time()
    try:
        os.makedirs("results", exist_ok=True)
        folder_lock = open("results/.lock", "a+", encoding="utf-8")
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
        os.utime("results/.lock")  # by the clock of this disk
        now = os.stat("results/.lock").st_mtime
    if message := inside_snakemake.refuse_dated_ahead(workflow, now):
        raise WorkflowError(message)
    # what these jobs make, which is less than the round needs where one file was asked for
    jobs = list(workflow.dag.needrun_jobs())
    made = [
        (job.wildcards.framework, job.wildcards.device)
        for job in jobs
        if job.rule.name == name_of("environment")
    ]
    folders = {f"{os.path.dirname(str(path))}/" for job in jobs for path in job.output}
    if any(folder.startswith(f"{RESULTS}/") for folder in folders):
        if message := inside_snakemake.refuse_folder(RESULTS):
            raise WorkflowError(message)
    makes_data = any(folder.startswith("results/data/") for folder in folders)
    if made or makes_data:
        from dlperf.plan import data, estimate

        wanted = estimate.builds_of(CONFIG, made)
        sets = data.missing(CASES) if makes_data else []
        sets = [each for each in sets if f"results/data/{each.folder}/" in folders]
        if message := estimate.check_disk(wanted, sets):
            raise WorkflowError(message)
    if timed := [
        case_of(job.wildcards) for job in jobs if job.rule.name == name_of("repetition")
    ]:
        from dlperf.plan import data

        if message := data.without_weights(timed):
            raise WorkflowError(message)


onsuccess:
    # after everything that Snakemake prints
    if makes_report:
        atexit.register(print, f"Report: {RESULTS}/report.html", flush=True)
