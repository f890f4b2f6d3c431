"""What a publication's words for its estimator mean: whether a figure was got as ours are.

In: one of our metrics, and the words, in small letters. Out: why their figure is another estimate,
or may be one; and what of a GPU's memory they count.
"""

import re
from collections.abc import Iterator

from dlperf.analysis.compare.published_values import MEMORY, PERCENTILE

#: Estimators of samples over time, as ours are, of one run or of several.
OVER_TIME = re.compile(r"wall[ _]clock|harmonic|\bmedian\b|\bmean (of|over) (\d+ )?(runs|repetit)")
#: Estimators that are something else, whatever stands beside it.
MEAN_OF_RATES = re.compile(r"(?<!harmonic_)(?<!harmonic )mean[ _]of[ _](the[ _])?rates")
EXTREME = re.compile(
    r"\b(best|fastest|highest|max|maximum|peak|lowest|least|min|minimum|worst|slowest)\b"
    r"( (of|over) ((the|all|several|\d+) )*(runs|repetit))?"
)
#: Estimators of one run that say how a latency, a step's time or memory was got, as ours are.
OF_LATENCIES = re.compile(r"\bp\d{1,2}\b|\bpercentile\b")
OF_TIMES = re.compile(r"\bmean (of|over) ((the|all|\d+) )*(steps|iterations|batches|requests)\b")
PEAK = re.compile(r"\b(peak|max|maximum)\b")
#: What of a GPU's memory they count: all that a process holds, or what a framework allocated.
HELD = re.compile(r"\b(nvidia-smi|nvml|process|reserved)\b")
ALLOCATED = re.compile(r"\ballocat")


def other_estimate(metric: str, how: str) -> Iterator[str]:
    """Why a figure of this metric with this estimator is not got as ours are; nothing if it is."""
    if MEAN_OF_RATES.search(how):
        yield "their figure is a mean of rates, ours is samples over time"
    elif any(metric != MEMORY or of_runs[2] for of_runs in EXTREME.finditer(how)):
        yield f"their figure is the best or worst of several ('{how}'), ours is a median"
    elif not _is_like_ours(metric, how) or "_of_rates" in how.replace("harmonic_mean_of_rates", ""):
        yield f"how their figure was computed is not known ('{how or 'nothing is said'}')"


def _is_like_ours(metric: str, how: str) -> bool:
    """Whether an estimator is known to be that of a metric here."""
    if OVER_TIME.search(how):
        return True
    if metric == MEMORY:
        return bool(PEAK.search(how))
    if PERCENTILE.fullmatch(metric):
        return bool(OF_LATENCIES.search(how))
    return metric in ("latency_mean", "step_time") and bool(OF_TIMES.search(how))


def counted_memory(how: str) -> set[str]:
    """What of a GPU's memory is counted: what a process 'holds', what it 'allocated'; both or
    neither where that is not clear."""
    words = ((HELD, "holds"), (ALLOCATED, "allocated"))
    return {word for each, word in words if each.search(how)}
