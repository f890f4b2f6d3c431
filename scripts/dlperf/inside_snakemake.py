"""All that reaches into Snakemake's inside, in one place; it was tried with TRIED_WITH.

The rule files call these functions and touch nothing else there. tests/workflow/test_inside.py
fails where a version of Snakemake has other insides.
"""

import atexit
import contextlib
import inspect
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TextIO

from dlperf.contract import storage

TRIED_WITH = "9.27.1"
#: Where Snakemake keeps its log and its notes on earlier calls.
OWN_FOLDER = ".snakemake"
#: A folder with less room is full: nothing can be made there.
ROOM_BYTES = 100_000
#: The last line after Ctrl-C or SIGTERM.
STOPPED = "Stopped. The same command resumes."


def is_module(workflow: Any) -> bool:
    """Whether another Snakefile uses the one that is being read as a module. One that changes paths
    is refused: commands have the paths of records and of shared files too."""
    from snakemake.exceptions import WorkflowError

    modifier = workflow.modifier
    if modifier.path_modifier.modify("results/config.yaml") != "results/config.yaml":
        raise WorkflowError(
            f"module {modifier.namespace}: `prefix` and `replace_prefix` are not supported; leave "
            "them out, and everything is written to results/<round>/ in the working folder"
        )
    return not modifier.is_main_snakefile()


def of_each_job(function: Callable) -> Callable:
    """Marks what Snakemake calls for each of thousands of jobs: it looks at the signature twice a
    call, and finds it here instead of working it out again."""
    vars(function)["__signature__"] = inspect.signature(function)
    return function


def stop_waking(workflow: Any) -> None:
    """The scheduler has no limit on jobs a second.

    For that limit it wakes itself a second after each look at what is ready, and each job that ends
    adds such a chain: after N jobs it looks N times a second, beside what is being timed.
    """
    workflow.scheduler.job_rate_limiter = None


def end_quietly() -> None:
    """Ctrl-C before any job runs ends with STOPPED in place of a traceback."""
    usual = sys.excepthook

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print(STOPPED, file=sys.stderr)
        else:
            usual(kind, error, trace)

    sys.excepthook = told


def refuse_own_folder() -> str:
    """Why Snakemake cannot write to .snakemake, where it needs to; or "".

    It would end with a traceback for each line that its log cannot take.
    """
    logging.raiseExceptions = False  # of a log that cannot be written; the terminal has its lines
    if message := refuse_folder(OWN_FOLDER):
        message += "; Snakemake needs to write there"
    return message


def refuse_folder(folder: str) -> str:
    """Why nothing can be written to a folder, which is made if need be; or ""."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as stream:
            stream.write(bytes(ROOM_BYTES))
            stream.flush()
    except OSError as error:
        return storage.message(OSError(error.errno, error.strerror), folder)
    return ""


def nothing_is_incomplete() -> None:
    """`--report` takes files that a killed call has left.

    The profiles say `ignore-incomplete`, as files are written completely or not at all. A report
    does not look at that setting.
    """
    from snakemake.dag import DAG

    async def check_incomplete(self: Any) -> None:
        pass

    assert hasattr(DAG, "check_incomplete"), "Snakemake checks it there"
    DAG.check_incomplete = check_incomplete  # type: ignore[method-assign]


def keep_records(workflow: Any) -> None:
    """No record is deleted, and none is lost over the time of a file.

    Snakemake deletes what a job would make before it runs, and what it made where it failed, as
    that may be half written. It fails a job whose output is older than its inputs: where an input
    is dated ahead, or a node's clock is behind. Records are written whole or not at all, and their
    time does not count (rules/measure.smk). Other outputs are still compared with their inputs, but
    only by the main process, which sets their time itself.
    """
    from snakemake.dag import DAG
    from snakemake.jobs import Job

    remove, clean_up, compare = Job.remove_existing_output, Job.cleanup, DAG.check_output_mtime

    async def remove_existing_output(self: Any) -> None:
        if not measures(self):
            await remove(self)

    async def cleanup(self: Any, skip_outputs: Any) -> None:
        if not measures(self):
            await clean_up(self, skip_outputs)

    async def check_output_mtime(self: Any, job: Any, expanded_output: Any) -> None:
        if workflow.is_main_process and not measures(job):
            await compare(self, job, expanded_output)

    # Snakemake has no setting for any of the three; mypy allows no method to be replaced.
    Job.remove_existing_output = remove_existing_output  # type: ignore[method-assign]
    Job.cleanup = cleanup  # type: ignore[method-assign]
    DAG.check_output_mtime = check_output_mtime  # type: ignore[method-assign]


def measures(job: Any) -> bool:
    """Whether a job is a repetition, also where a module gave the rule's name a prefix."""
    return bool(job.rule.name.endswith(MEASURED))


#: Inputs that are dated ahead by less are waited for: clocks of file servers differ by seconds.
MOST_SECONDS_AHEAD = 30


def refuse_dated_ahead(workflow: Any, now: float) -> str:
    """Why the jobs that are to run may not start: inputs that are dated later than `now`; or "".

    What is made from such a file is older than it, so it would be made again at every call. `now`
    is the time that a file gets that is written at this moment.
    """
    jobs = [job for job in workflow.dag.needrun_jobs() if job.output]
    made = {str(path) for job in jobs for path in job.output}
    ahead = {}
    for path in {str(path) for job in jobs for path in job.input} - made:
        with contextlib.suppress(OSError):  # missing: Snakemake says so
            seconds = max(os.stat(path).st_mtime, os.lstat(path).st_mtime) - now
            if seconds > 0:
                ahead[path] = seconds
    if not ahead:
        return ""
    shown = sorted(ahead, key=ahead.__getitem__, reverse=True)[:5]
    if ahead[shown[0]] <= MOST_SECONDS_AHEAD:
        print(f"{shown[0]}: is dated {ahead[shown[0]]:.0f} s ahead; waiting", file=sys.stderr)
        time.sleep(ahead[shown[0]])
        return ""
    lines = [
        f"{path}: is dated {_local(now + ahead[path])}, {duration(ahead[path])} ahead of the clock"
        for path in shown
    ]
    if len(ahead) > len(shown):
        lines.append(f"and {len(ahead) - len(shown)} more")
    lines.append(
        "Nothing was started: what is made from such a file is older than it, so that it would be "
        f"made again at every call. The clock says {_local(now)}. If that is right, run "
        f"`touch {shlex.join(shown)}`, then the same command again."
    )
    return "\n".join(lines)


def _local(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


#: A job that squeue forgot and that left nothing counts as failed after this time: its files may be
#: seen later here than on its node.
FORGOTTEN_SECONDS = 90


def end_forgotten_jobs(workflow: Any) -> None:
    """A job of Slurm has ended when squeue no longer knows it.

    The executor takes such a job for one that is still to appear, and waits for ever. That is right
    for sacct, whose database is behind. squeue asks the controller, which knows a job from its
    submission on, and forgets it `MinJobAge` after its end. Where that is short, the executor asks
    sacct although the profile says squeue, and without slurmdbd waits for its answer for ever.
    """
    try:
        import snakemake_executor_plugin_slurm as slurm
    except ImportError:
        return
    query, check = slurm.query_job_status, slurm.Executor.check_active_jobs
    before = {
        str(path): _version(str(path)) for job in workflow.dag.needrun_jobs() for path in job.output
    }
    known: dict[str, set[str] | None] = {"jobs": None}  # what squeue said last; None: nothing
    forgotten: dict[str, float] = {}  # since when, by job

    async def query_job_status(command: str, logger: Any) -> Any:
        statuses, seconds = await query(command, logger)
        by_squeue = command.split()[0] == "squeue" and statuses is not None
        known["jobs"] = set(statuses) if by_squeue else None
        return statuses, seconds

    async def check_active_jobs(self: Any, active_jobs: Any) -> Any:
        known["jobs"] = None
        async for job_info in check(self, active_jobs):
            number = job_info.external_jobid
            names = slurm._status_lookup_ids(number)
            if known["jobs"] is None or not known["jobs"].isdisjoint(names):
                forgotten.pop(number, None)
                yield job_info
                continue
            since = forgotten.setdefault(number, time.monotonic())
            if all(
                _version(str(path)) not in (None, before.get(str(path)))
                for path in job_info.job.output
            ):
                self.report_job_success(job_info)
            elif time.monotonic() - since < FORGOTTEN_SECONDS:
                yield job_info
                continue
            else:
                message = (
                    f"Slurm's squeue no longer knows job {number}, and its files are missing: it "
                    "was cancelled, it failed, or they are not seen here. "
                )
                log = job_info.aux.get("slurm_logfile")
                self.report_job_error(job_info, msg=message, aux_logs=[str(log)] if log else [])
            self.next_seconds_between_status_checks = (
                self.workflow.executor_settings.init_seconds_before_status_checks
            )

    slurm.get_min_job_age = lambda: sys.maxsize  # squeue is right, however soon it forgets
    slurm.query_job_status = query_job_status
    slurm.Executor.check_active_jobs = check_active_jobs


def _version(path: str) -> tuple[int, int] | None:
    """What changes when a file is written again; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def stop_on_signals() -> None:
    """SIGTERM and Ctrl-C end Snakemake, whatever it is doing.

    Its own handler of SIGTERM takes a lock that the interrupted code may hold, and then waits for
    itself for ever; in a thread of its own it waits until that lock is free. Ctrl-C ends Snakemake
    by an exception, which can get lost in its event loop: then, too, nothing new starts. It stays
    ignored where Snakemake was started so, as a shell without job control starts background jobs.
    """
    graceful = signal.getsignal(signal.SIGTERM)
    assert callable(graceful), "Snakemake has a handler of SIGTERM"

    def stop(number: int, frame: FrameType | None) -> None:
        atexit.unregister(say_stopped)  # a second Ctrl-C says nothing new
        atexit.register(say_stopped)
        threading.Thread(target=graceful, args=(number, frame)).start()
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)


def say_stopped() -> None:
    print(STOPPED, file=sys.stderr)


def say_progress(workflow: Any, stream: TextIO = sys.stderr) -> None:
    """A line a finished job where the output is no terminal; on one, the time left in the bars."""
    if not stream.isatty():
        total = sum(1 for _ in workflow.dag.needrun_jobs())
        repetitions = sum(job.rule.name == MEASURED for job in workflow.dag.needrun_jobs())
        workflow.logger_manager.logger.addHandler(Lines(stream, total, repetitions))
        return
    from rich.progress import TimeRemainingColumn

    for handler in workflow.logger_manager.plugin_handlers:
        progress = getattr(handler, "progress", None)
        if progress is not None:
            progress.columns = (*progress.columns, TimeRemainingColumn())


#: The rule whose jobs run one after the other, and take most of the time.
MEASURED = "repetition"


class Lines(logging.Handler):
    """'03:12:40  57 of 96  repetition resnet50 jax … 2; about 9 minutes left', a line a job."""

    def __init__(self, stream: TextIO, total: int, repetitions: int) -> None:
        super().__init__(logging.DEBUG)
        self._stream, self._total, self._left = stream, total, repetitions
        self._jobs: dict[int, tuple[str, str]] = {}
        self._done = 0
        self._times: list[float] = []  # when a repetition ended

    def emit(self, record: logging.LogRecord) -> None:
        said = vars(record)  # an event's fields are attributes of its record
        event = getattr(said.get("event"), "value", "")
        if event == "job_info":
            about = " ".join(map(str, said["wildcards"].values()))
            self._jobs[said["jobid"]] = (said["rule_name"], about)
        elif event == "job_finished":
            self._finished(*self._jobs.pop(said["job_id"], ("", "")))

    def _finished(self, rule: str, about: str) -> None:
        self._done += 1
        words = f"{rule.replace('_', ' ')} {about}".strip()
        line = f"{time.strftime('%H:%M:%S')}  {self._done} of {self._total}  {words}"
        if rule == MEASURED:
            self._left -= 1
            self._times.append(time.monotonic())
            if self._left and len(self._times) > 1:
                each = (self._times[-1] - self._times[0]) / (len(self._times) - 1)
                line += f"; {duration(each * self._left)} left"
        print(line, file=self._stream, flush=True)


def duration(seconds: float) -> str:
    """'about 9 minutes', 'about 2.5 hours'."""
    minutes = max(1, round(seconds / 60))
    if minutes < 90:
        return f"about {minutes} {'minute' if minutes == 1 else 'minutes'}"
    return f"about {seconds / 3600:.1f} hours"
