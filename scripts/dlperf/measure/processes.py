"""Child processes that never outlive the stopwatch, and whose output goes to the log."""

import collections
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time

from dlperf.measure import memory_words

PR_SET_PDEATHSIG = 1
NEAR = 0.9  # of its limit of memory: then a death without a reason is taken for its end
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Ask the kernel to kill this process when its parent ends in any way (Linux)."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A process in its own session; its output goes to `log` line by line, with its name if any.

    enter: what it does first of all, such as joining a namespace. limit_bytes: the private memory
    that it may commit (RLIMIT_DATA), 0 without a limit of its own.
    """

    def __init__(self, name, argv, environment, cores, log, enter=None, limit_bytes=0):
        self.name = name
        self.tail = collections.deque(maxlen=40)
        self._limit, self._most = _limit(limit_bytes), 0

        def prepare():
            if enter:
                enter()
            die_with_parent()  # after it: other credentials make the kernel forget this
            if cores:
                os.sched_setaffinity(0, cores)
            if limit_bytes:
                resource.setrlimit(resource.RLIMIT_DATA, (self._limit, self._limit))

        self._process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
        )
        self._reader = threading.Thread(target=self._copy, args=(log,), daemon=True)
        self._reader.start()

    def _copy(self, log):
        with self._process.stdout as stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip()
                self.tail.append(line)
                log.write("%s%s\n" % (self.name and "[%s] " % self.name, line))
                log.flush()

    @property
    def pid(self):
        return self._process.pid

    def poll(self):
        """The exit status, negative for a signal, or None while it runs."""
        if self._limit != resource.RLIM_INFINITY:
            self._most = max(self._most, self._data_bytes())
        return self._process.poll()

    def committed_peak_bytes(self):
        """The most private memory that was seen of it; 0 where nothing limits it."""
        return self._most

    def last_words(self):
        """The last of its lines that says that memory ended, or is not empty.

        Some die of a signal without a word when they come to their limit, or with one that can
        mean anything: it is said for them.
        """
        self._reader.join(1)
        lines = [line for line in self.tail if line.strip()]
        words = memory_words.last_line(lines) or (lines[-1] if lines else "")
        share = self._most / float(self._limit)
        silent = self._process.returncode < 0 or memory_words.may_say(words)
        if silent and share > NEAR and not memory_words.says(words):
            words += "; out of memory: it had %.0f %% of its limit (RLIMIT_DATA)" % (100 * share)
        return words

    def _data_bytes(self):
        """Private memory that the process has, as RLIMIT_DATA counts it; 0 when it is gone."""
        try:
            with open("/proc/%d/status" % self._process.pid, encoding="utf-8") as stream:
                return next(
                    (int(line.split()[1]) * 1024 for line in stream if line.startswith("VmData")), 0
                )
        except OSError:
            return 0

    def cpu_seconds(self):
        """CPU time that the process has used, 0 when it is gone."""
        try:
            with open("/proc/%d/stat" % self._process.pid, encoding="utf-8") as stream:
                fields = stream.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))

    def signal_group(self, number):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass


def _limit(asked):
    """The limit of a child that may commit `asked` bytes: no more than this process may allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if not asked:
        return soft
    return asked if hard == resource.RLIM_INFINITY else min(asked, hard)


def stop(children, grace_seconds=3.0):
    """End the children and all that they started: SIGTERM, a pause, SIGKILL. Waits for the end."""
    for child in children:
        if child.poll() is None:
            child.signal_group(signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(0.02)
    for child in children:
        child.signal_group(signal.SIGKILL)  # also ends what a child left behind in its group
    for child in children:
        while child.poll() is None:
            time.sleep(0.02)


def reap(adopted):
    """End processes that this one adopted from its children, and wait for their end."""
    for pid in adopted:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError, PermissionError):
            pass  # it ended, and somebody else waited for it


def handle_stops(handler):
    """Let `handler` take Ctrl-C, SIGTERM and SIGHUP.

    What this process was started to ignore stays ignored: `nohup` asks for that of SIGHUP, and a
    shell without job control of Ctrl-C, for what it starts in the background. SIGTERM always ends.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def end_with_ranks():
    """Make this process end its ranks before it ends: when it gets a signal, and when the process
    that started it is killed.

    PR_SET_PDEATHSIG is not enough: it depends on the parent's thread, and the parent may be a
    shell.
    """

    def stop(number, frame):
        # It is an exception, so that the watcher's `finally` ends the ranks before this process
        # ends.
        raise SystemExit(128 + number)

    handle_stops(stop)
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    if parent != 1 and "SLURM_JOB_ID" not in os.environ:
        threading.Thread(target=watch, daemon=True).start()
