"""Whether a text says that memory ended: the words of each framework and of what it calls.

In: an exception's text, or lines that a process wrote before it died. Words are compared without
case; those of libraries stand in their own sources.
"""

WORDS = {
    "everybody": (
        "out of memory",  # Linux, CUDA, NCCL, libraries of images
        "out_of_memory",  # CUDA_ERROR_OUT_OF_MEMORY
        "memoryerror",  # Python
        "bad_alloc",  # C++
        "cannot allocate memory",  # ENOMEM
        "can't allocate memory",
        "failed to allocate",
        "unable to allocate",  # NumPy
        "memory allocation failed",
        "memory allocation failure",  # oneDNN
        "cudaerrormemoryallocation",
        # NVIDIA's libraries. Not CUDNN_STATUS_NOT_SUPPORTED, which cuDNN says of shapes, types and
        # strides: where memory is the cause, the framework's own words below follow.
        "_status_alloc_failed",  # cuDNN, cuBLAS, cuSOLVER, cuSPARSE
        "_allocation_failed",  # cuDNN 9 (…_DEVICE_ALLOCATION_FAILED), cuRAND
        "cufft_alloc_failed",
    ),
    "pytorch": (
        "outofmemoryerror",
        "defaultcpuallocator",
        # none fits into what is left
        "unable to find a valid cudnn algorithm",
        "unable to find an engine",
    ),
    "tensorflow": (
        "resource_exhausted",
        "resource exhausted",
        "resourceexhaustederror",
        "oom when allocating",
        "no algorithm worked",
        "could not allocate ndarray",
    ),
    "paddlepaddle": ("resourceexhausted",),
    "mxnet": ("memory alloc failed",),
    # an array of ours, which it copies
    "oneflow": ("allocate failed", "alloc failed", "can not convert input data to a new numpy"),
    "mindspore": (
        "memory isn't enough",
        "memory is not enough",
        "memory not enough",
        "malloc failed",
        "alloc memory failed",
        "allocate memory failed",
        "alloc device memory",
        "allocate device memory failed",
        "allocate continuous memory failed",
    ),
}
_ALL = tuple(word for words in WORDS.values() for word in words)
#: oneDNN says so of whatever ended it. Of memory, where a limit was nearly reached.
VAGUE = ("could not create a primitive", "could not execute a primitive")
#: TensorFlow's allocator warns of what it then does without; a limit that is named is not reached.
_HARMLESS = ("not a failure", "may lead to")


def says(text):
    """Whether the text says that memory ended."""
    return any(_says(line) for line in text.lower().splitlines())


def may_say(text):
    """Whether the text may say so: it is oneDNN's, of whatever ended it."""
    return any(word in text.lower() for word in VAGUE)


def _says(line):
    return any(word in line for word in _ALL) and not any(word in line for word in _HARMLESS)


def last_line(lines):
    """The last of the lines that says so, or ""."""
    return next((line for line in reversed(list(lines)) if says(line)), "")
