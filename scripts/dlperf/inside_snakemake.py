"""All that reaches into Snakemake's inside, in one place; it was tried with TRIED_WITH.

The rule files call these functions and touch nothing else there. tests/workflow/test_inside.py
fails where a version of Snakemake has other insides.
"""

import atexit
import inspect
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TextIO

TRIED_WITH = "9.27.1"
#: The last line after Ctrl-C or SIGTERM.
STOPPED = "Stopped. The same command resumes."


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
