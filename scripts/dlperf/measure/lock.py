"""A lock file: whatever is timed has its machine to itself."""

import contextlib
import fcntl
import os
import sys

from dlperf.measure import host


@contextlib.contextmanager
def held(path):
    """Hold the lock file `path`; the kernel frees it however this process ends."""
    if not path:
        yield
        return
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    # each node has its own, as nodes that share the folder need not wait for each other
    with open("%s-%s" % (path, host.name()), "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("waiting for another repetition on this machine to end", file=sys.stderr)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
