"""Writes records to disk, completely or not at all, and notes where they came from."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time

from dlperf.contract import files
from dlperf.measure import code, reached

SCHEMA = "dlperf.record/2"


def write(record, path, attempts=None):
    """Write `record` to `path`, completely or not at all.

    With `attempts` (a folder), a copy is kept there, in the last three folders of `path` (workload,
    framework, case) and named by its start time. So the record is not lost if the repetition is
    made again; nor is one without a copy, as of a measurement without the workflow.
    """
    text = (json.dumps(record, indent=1) + "\n").encode()
    if attempts:
        folders = os.path.dirname(os.path.abspath(path)).split(os.sep)[-3:]
        folder = os.path.join(attempts, *folders)
        _keep_replaced(path, folder)
        _keep(text, record["provenance"]["start_utc"], path, folder, os.getpid())
    files.write(path, text)


def _keep(text, start_utc, path, folder, number):
    stem = os.path.splitext(os.path.basename(path))[0]
    stamp = start_utc.replace(":", "").replace("-", "")
    files.write(os.path.join(folder, "%s-%s-%d.json" % (stem, stamp, number)), text)


def _keep_replaced(path, folder):
    """Keep a copy of the record that is at `path`, unless `folder` has one."""
    try:
        with open(path, "rb") as stream:
            text = stream.read()
        start_utc = json.loads(text.decode())["provenance"]["start_utc"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # there is none
    names = os.listdir(folder) if os.path.isdir(folder) else []
    if sha256(text) not in [file_sha256(os.path.join(folder, name)) for name in names]:
        _keep(text, start_utc, path, folder, 0)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def file_sha256(path):
    """The sha256 of a file, or "" if it does not exist."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for part in iter(lambda: stream.read(2**18), b""):  # it may be larger than memory
                digest.update(part)
    except OSError:
        return ""
    return digest.hexdigest()


def _git(*words):
    """What git says of the repository of this code; "" where it says nothing.

    In a container it often belongs to another user, and git would say nothing of it then.
    """
    folder = os.path.dirname(os.path.realpath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(folder)))
    try:
        answer = subprocess.run(
            ("git", "-c", "safe.directory=" + root, "-C", folder) + words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return ""
    return answer.stdout.decode().strip() if answer.returncode == 0 else ""


def git_commit():
    return _git("rev-parse", "HEAD")


def job_start_utc(job):
    """When Slurm started the job and so reserved its nodes; "" if that is not known."""
    if not job:
        return ""
    try:
        answer = subprocess.run(
            ("squeue", "--noheader", "--jobs=" + job, "--format=%S"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
        )
        local = time.strptime(answer.stdout.decode().strip(), "%Y-%m-%dT%H:%M:%S")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.mktime(local)))


def provenance(case, environment, config_sha256):
    """Where a record comes from; `environment` is the content of env.json, or {}."""
    commit = git_commit()
    identity = case["identity"]
    own = code.of_implementation(identity["workload"], identity["framework"])
    data_dir = case["settings"]["data_dir"]
    return {
        "git_commit": commit,
        "git_dirty": bool(_git("status", "--porcelain", "-uno")) if commit else None,
        "code_sha256": code.sha256(own),
        "unexplained": reached.unexplained(identity["workload"], identity["framework"]),
        "case_sha256": sha256(json.dumps(case, sort_keys=True).encode()),
        "config_sha256": config_sha256,
        "environment_backend": environment.get("backend", ""),
        "lock_sha256": code.applied_lock(environment),
        "freeze_sha256": sha256("\n".join(environment.get("freeze", [])).encode()),
        "data_manifest_sha256": (
            file_sha256(os.path.join(data_dir, "manifest.json")) if data_dir else ""
        ),
        "python": environment.get("python", platform.python_version()),
        "launcher": "slurm" if os.environ.get("SLURM_JOB_ID") else "local",
        "scheduler_job": os.environ.get("SLURM_JOB_ID", ""),
        "scheduler_job_start_utc": job_start_utc(os.environ.get("SLURM_JOB_ID")),
        "command": " ".join(shlex.quote(each) for each in sys.argv[1:]),
    }
