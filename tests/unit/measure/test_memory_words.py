"""Out of memory is told from other ends, by what a rank or its framework said last."""

import io
import os
import resource
import sys
import time

import pytest

from dlperf.measure import memory_words, rank
from dlperf.measure.processes import Child
from dlperf.measure.stopwatch import Attempt

#: What frameworks said, here or in reports of their users.
OUT = [
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
    "allocate memory: you tried to allocate 8388608 bytes. Error code 12 (Cannot allocate memory)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
    "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "RuntimeError: GET was unable to find an engine to execute this computation",
    "RuntimeError: FIND was unable to find an engine to execute this computation",
    "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "CUFFT_ALLOC_FAILED",
    "CUDNN_BACKEND_API_FAILED: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "INTERNAL: 2.00GiB (2147483648 bytes) on the device: cudaErrorMemoryAllocation",
    "Memory not enough: current free memory size[1024] is smaller than required size[4096].",
    "CUDA error: cudaMalloc failed: out of memory",
    "  what():  std::bad_alloc",
    "ResourceExhaustedError: OOM when allocating tensor with shape[256,4,4,1024]",
    "W tensorflow/core/framework/op_kernel.cc:1842] RESOURCE_EXHAUSTED: failed to allocate",
    "NotFoundError: No algorithm worked!  Error messages:",
    "(ResourceExhausted) Fail to alloc memory of 8388608 size, error code is 12.",
    "  what():  \x1b[1mError\x1b[0m: allocate failed",
    "RuntimeError: Device(id:0) memory isn't enough and alloc failed, kernel name: Conv2D",
    "mxnet.base.MXNetError: Failed to allocate CPU Memory",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB",
    "OSError: [Errno 12] Cannot allocate memory",
    "MemoryError",
    "InternalError: Could not allocate ndarray",
    "RuntimeError: \x1b[1mError\x1b[0m: Can not convert input data to a new numpy array.",
]
NOT = [
    "Allocation of 154140672 exceeds 10% of free system memory.",
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.15GiB. The caller indicates that "
    "this is not a failure, but this may mean that there could be performance gains",
    "RuntimeError: Connection reset by peer",
    "ValueError: the loss is not finite: [nan]",
    "Segmentation fault (core dumped)",
    "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED",
    "OSError: [Errno 28] No space left on device",
    "",
]


@pytest.mark.parametrize("words", OUT)
def test_each_frameworks_own_words_are_known(words):
    assert memory_words.says(words)
    assert rank.failure(RuntimeError(words))["status"] == "oom"


@pytest.mark.parametrize("words", NOT)
def test_what_else_goes_wrong_is_a_crash(words):
    assert not memory_words.says(words)
    assert rank.failure(RuntimeError(words))["status"] == "crashed"


def ended(program: str) -> tuple[int, str]:
    """(exit status, last words) of a real process."""
    child = Child("", [sys.executable, "-c", program], dict(os.environ), [], io.StringIO())
    while child.poll() is None:
        time.sleep(0.01)
    return child.poll(), child.last_words()


def why(ends: dict[int, tuple[int, str]], facts: list[dict | None]) -> tuple[str, str]:
    """What the stopwatch makes of ranks that ended so."""
    attempt = Attempt.__new__(Attempt)
    attempt._local_ranks = len(facts)
    attempt._exits, attempt.facts, attempt._results = ends, facts, [{"oom_kills": 0}]
    return attempt._why()


SAID = "import os; print('RESOURCE_EXHAUSTED: OOM when allocating tensor'); print({!r}, flush=True)"


def test_a_rank_that_dies_of_a_signal_after_it_said_so_is_out_of_memory():
    how = ended(SAID.format("Fatal: bye") + "; os.kill(os.getpid(), 11)")
    status, reason = why({0: how}, [None])
    assert status == "oom"
    assert reason == (
        "rank 0: ended with signal 11; its last output: "
        "RESOURCE_EXHAUSTED: OOM when allocating tensor"
    )


@pytest.mark.parametrize(
    "words",
    [
        "E0000 cuda_dnn.cc: CUDNN_STATUS_ALLOC_FAILED",
        "[ERROR] Device(id:0) memory isn't enough and alloc failed",
        "terminate called: cuda error CUDA_ERROR_OUT_OF_MEMORY",
        "F check failed: CUBLAS_STATUS_ALLOC_FAILED",
    ],
)
def test_a_rank_on_a_gpu_that_aborts_says_so_in_its_last_words(words):
    how = ended(f"import os; print({words!r}); print('C++ traceback', flush=True); os.abort()")
    assert why({0: how}, [None]) == (
        "oom",
        f"rank 0: ended with signal 6; its last output: {words}",
    )


def test_a_peer_that_lost_it_does_not_hide_it():
    lost = {"status": "crashed", "reason": "RuntimeError: Connection closed by peer"}
    how = ended(SAID.format("") + "; os.abort()")
    assert why({0: (1, ""), 1: how}, [lost, None])[0] == "oom"
    first = ended("import os; print('a peer went away', flush=True); os.abort()")
    assert why({0: first, 1: how}, [None, None])[0] == "oom"


def test_a_rank_that_dies_of_a_signal_without_such_words_is_a_crash():
    how = ended("import os; print('hello', flush=True); os.kill(os.getpid(), 11)")
    status, reason = why({0: how}, [None])
    assert (status, reason) == ("crashed", "rank 0: ended with signal 11; its last output: hello")


def test_a_process_under_a_real_limit():
    program = "import resource as r; r.setrlimit(r.RLIMIT_DATA, (1 << 27,) * 2); b'x' * (1 << 30)"
    code, words = ended(program)
    assert code == 1 and memory_words.says(words)


SILENT = (
    "import mmap, os, time;"
    "m = mmap.mmap(-1, {}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS);"
    "time.sleep(0.3); "
)


def taking(share: float, end: str) -> tuple[int, str]:
    """(exit status, last words) of a real process that takes so much of its limit, and ends so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = 16 * 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        return ended(SILENT.format(int(share * limit)) + end)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.mark.parametrize(("share", "status"), [(0.95, "oom"), (0.3, "crashed")])
def test_a_silent_death_at_the_limit_is_out_of_memory(share, status):
    """MXNet and PaddlePaddle may die so."""
    how = taking(share, "os.abort()")
    assert how[0] == -6
    assert why({0: how}, [None])[0] == status


@pytest.mark.parametrize(("share", "status"), [(0.95, "oom"), (0.3, "crashed")])
@pytest.mark.parametrize("words", memory_words.VAGUE)
def test_words_that_may_mean_anything_mean_memory_at_the_limit(words, share, status):
    """PyTorch ends so where oneDNN finds no memory, and where the kernel forbids its code."""
    how = taking(share, f"print('RuntimeError: {words}', flush=True); os._exit(1)")
    facts = rank.failure(RuntimeError(words))
    assert facts["status"] == "crashed"
    found, reason = why({0: how}, [facts])
    assert found == status and reason.startswith(f"rank 0: RuntimeError: {words}")
    assert ("it had 95 % of its limit" in reason) == (status == "oom")


def test_another_error_at_the_limit_is_a_crash():
    how = taking(0.95, "print('ValueError: no such file', flush=True); os._exit(1)")
    assert why({0: how}, [rank.failure(ValueError("no such file"))])[0] == "crashed"
