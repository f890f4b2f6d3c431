"""A framework as a plan sees it: what it can do, without a package."""

from collections.abc import Callable, Iterable

from dlperf.contract.framework import Framework
from dlperf.contract.workload import no_reason


def known_framework(
    title: str,
    compilers: Iterable[str] = (),
    default: str = "none",
    unsupported: Callable[..., str] = no_reason,
) -> Framework:
    """One with these compilers beside 'none', all of which have float64."""
    names = ("none", *compilers)
    return Framework(
        title=title,
        compilers=dict.fromkeys(names, ""),
        default_compiler={"cpu": default, "cuda": default},
        half={"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16")},
        float64_compilers=names,
        float64_exchange=True,
        shards_tables=True,
        unsupported=unsupported,
    )
