"""What disturbed the repetitions of a case, or makes them unlike each other.

In: measurements.tsv.gz as a DataFrame. Out: the flags that repetitions raise, by case.
"""

import numpy as np
import pandas

from dlperf.analysis import frames
from dlperf.analysis.round.calibration import noise

#: Below this share of idle CPU time before the start, something else was running on the host.
IDLE_SHARE = 0.9
#: Above this share of the host's CPU time in the window, something else was running beside it.
FOREIGN_SHARE = 0.1
#: What a frame must have for `overlapping`.
SPANS = (
    *("record", "hostname", "nodes_used"),
    *("start_utc", "end_utc", "window_start_utc", "window_end_utc"),
)


def raised(measured: pandas.DataFrame, ok: pandas.DataFrame) -> dict[str, set[int]]:
    """Flag -> the cases (column `number`) whose ok repetitions raise it.

    `measured` are all repetitions of the round, of which `ok` are some.
    """

    def cases(which: pandas.Series) -> set[int]:
        return set(ok["number"][which.fillna(False).astype(bool)])

    def several(*names: str) -> set[int]:
        counts = ok.drop_duplicates(["number", *names])["number"].value_counts()
        return set(counts.index[counts > 1])

    displaced = noise.displaced(frames.rows(ok[list(noise.COLUMNS)]))
    cell = pandas.Series(list(zip(*(ok[name] for name in noise.CELL), strict=True)), ok.index)
    return {
        "mixed-code": several("git_commit", "git_dirty"),
        "mixed-environment": several("lock_sha256"),
        "mixed-data": several("data_manifest_sha256"),
        "suspect:overlapping-repetitions": cases(ok["record"].isin(overlapping(measured))),
        "suspect:busy-host-before": cases(ok["idle_share_before"] < IDLE_SHARE),
        "suspect:foreign-load": cases(ok["foreign_cpu_share"] > FOREIGN_SHARE),
        "suspect:throttled": cases(ok["throttled"].notna()),
        "suspect:drift": cases(cell.isin(displaced)),
    }


def overlapping(rows: pandas.DataFrame) -> set[str]:
    """Records whose run shared a host with another run at the same time; `rows` have SPANS.

    Both the timed windows (microseconds) and the whole runs (seconds, as records keep them) are
    compared: a repetition that only starts up disturbs the window of another one as well.
    """
    hosts = rows["nodes_used"].where(rows["nodes_used"].fillna("") != "", rows["hostname"])
    rows = rows.assign(host=hosts.str.split()).explode("host")
    run = _overlapping(rows, "start_utc", "end_utc")
    return run | _overlapping(rows, "window_start_utc", "window_end_utc")


def _overlapping(rows: pandas.DataFrame, first: str, last: str) -> set[str]:
    times = {
        name: pandas.to_datetime(rows[name], errors="coerce", utc=True, format="ISO8601")
        for name in (first, last)
    }
    spans = rows.assign(**times)[["host", "record", first, last]].dropna()
    shared: set[str] = set()
    for _, own in spans.sort_values(["host", first, last, "record"]).groupby("host"):
        start, end = own[first].to_numpy(), own[last].to_numpy()
        latest = np.maximum.accumulate(end)
        # who ends last of those that started so far
        owner = np.maximum.accumulate(
            np.where(end > np.r_[end[:1], latest[:-1]], range(len(end)), 0)
        )
        (late,) = np.nonzero(start[1:] < latest[:-1])
        shared |= {*own["record"].iloc[late + 1], *own["record"].iloc[owner[late]]}
    return shared
