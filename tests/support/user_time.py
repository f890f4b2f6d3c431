"""Work of a stated size: user time of the calling thread, whatever the machine is doing."""

import hashlib
import resource

BLOCK = bytes(1 << 20)


def compute(seconds: float) -> None:
    """Spend so much user time in this thread, without Python's lock."""
    end = resource.getrusage(resource.RUSAGE_THREAD).ru_utime + seconds
    while resource.getrusage(resource.RUSAGE_THREAD).ru_utime < end:
        hashlib.sha256(BLOCK)
