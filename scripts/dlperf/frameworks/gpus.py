"""Whether a framework's build can use a GPU at all, asked before anything is made ready."""

from dlperf.contract.run import Unsupported


def require(title, built, seen):
    """Raise Unsupported unless the build of framework `title` has CUDA and sees a GPU."""
    if not built:
        raise Unsupported("this build of %s has no CUDA" % title)
    if not seen:
        raise Unsupported("%s sees no GPU" % title)
