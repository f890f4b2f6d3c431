"""What disturbed the repetitions of a case, or makes them unlike each other.

In: measurements.tsv.gz as a DataFrame. Out: the flags that repetitions raise, by case.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import pandas

from dlperf import workloads
from dlperf.analysis import frames
from dlperf.analysis.round.calibration import noise
from dlperf.analysis.round.flags import CODE
from dlperf.analysis.schema.rows import Measurement
from dlperf.contract.layout import NAMES as LAYOUT
from dlperf.contract.proof import applies

#: Below this share of idle CPU time before the start, something else was running on the host.
IDLE_SHARE = 0.9
#: Above this share of the host's CPU time in the window, something else was running beside it.
FOREIGN_SHARE = 0.1


class Shares(NamedTuple):
    """How far a number may be from the median over the frameworks of its table, as a share of it.

    exact: in float32. rounded: in other precisions. random: where dropout draws. grown: where
    rounding grows from step to step, as in ResNet-50; there spot checks hold what is trained.
    """

    exact: float
    rounded: float
    random: float
    grown: float


#: Of a loss of the timed window. In ResNet-50's honest laptop rounds the last of four steps' was
#: 1.5 % off at worst, and 0.7 % in the middle of five repetitions.
LOSSES = Shares(1e-3, 1e-2, 0.1, 0.03)
#: And so much of the way that losses went from the first measured step to the last one.
LOSS_MOVE = 0.25
#: Of how far training moved the weights: up to 7.5 % in those rounds.
CHANGES = Shares(0.01, 0.15, 0.05, 0.25)
#: In longer runs than of so many steps it may be more; and where these draw random numbers, so much
#: in one repetition: in 64 steps of ELECTRA, whose generator draws words, up to 10.2 %.
CHANGE_STEPS, CHANGE_SHARE_LONG, CHANGE_SHARE_DRAWN = 12, 0.1, 0.25
#: The middle of so many repetitions counts there, too.
CHANGE_REPETITIONS = 3
#: A window longer than was asked for may go so much faster than the trial before it, whose steps
#: the spot run has too. A trial's barrier and read count for fewer steps, which makes it slower: by
#: how much on a GPU, none has shown yet.
PACE = 1.1
#: What cells have in common that are beside each other.
BESIDE = ["table", "nodes", "devices_per_node", *LAYOUT, "workload", "precision"]
#: What a frame must have for `placed`, from which `strange_losses`, `strange_weights` and
#: `strange_outputs` take theirs.
COMPARED = (
    *("number", "repetition", *BESIDE, "searched", "data", "warmup_steps", "measured_steps"),
    *("loss_first", "loss_last", "weights_change", "weights_unchanged", "weights_distinct"),
    *("outputs_projection", "outputs_norm", "timed_steps"),
)
#: Of outputs, in which nothing is random.
OUTPUTS = Shares(1e-4, 0.05, 0.0, 0.0)
#: What a frame must have for `overlapping`.
SPANS = (
    *("record", "hostname", "nodes_used"),
    *("start_utc", "end_utc", "window_start_utc", "window_end_utc"),
)


def raised(
    measured: pandas.DataFrame, ok: pandas.DataFrame, kinds: pandas.DataFrame
) -> dict[str, set[int]]:
    """Flag -> the cases (column `number`) whose ok repetitions raise it.

    `measured` are all repetitions of the round, of which `ok` are some; `kinds` has what they were
    made with, each combination of a case once.
    """

    def cases(which: pandas.Series) -> set[int]:
        return set(ok["number"][which.fillna(False).astype(bool)])

    def several(*names: str) -> set[int]:
        counts = kinds.drop_duplicates(["number", *names])["number"].value_counts()
        return set(counts.index[counts > 1])

    compared = placed(ok[list(COMPARED)])  # copies of all columns take most of the time
    displaced = noise.displaced(cast(list[Measurement], frames.rows(ok[list(noise.COLUMNS)])))
    first = frames.rows(ok[["number", *noise.CELL]].drop_duplicates("number"))
    return {
        "mixed-code": several("git_commit", "git_dirty"),
        "mixed-environment": several("lock_sha256"),
        "mixed-data": several("data_manifest_sha256"),
        "saturated": cases(ok["utilisation"] >= 100),
        "suspect:overlapping-repetitions": cases(ok["record"].isin(overlapping(measured))),
        "suspect:busy-host-before": cases(ok["idle_share_before"] < IDLE_SHARE),
        "suspect:foreign-load": cases(ok["foreign_cpu_share"] > FOREIGN_SHARE),
        "suspect:throttled": cases(ok["throttled"].notna()),
        "suspect:placement": cases(ok["placement"].notna()),
        "suspect:drift": {
            row["number"] for row in first if tuple(row[key] for key in noise.CELL) in displaced
        },
        CODE: several("ran_beside_sha256") | set(kinds["number"][kinds["unvouched"].notna()]),
        "suspect:losses": strange_losses(compared),
        "suspect:weights": strange_weights(compared),
        "suspect:outputs": strange_outputs(compared),
        "suspect:pace": hurried(ok),
    }


def placed(repetitions: pandas.DataFrame) -> pandas.DataFrame:
    """These, with a number for each combination of BESIDE; below 0 where some of it is unknown."""
    return repetitions.assign(beside=repetitions.groupby(BESIDE).ngroup())


def strange_losses(ok: pandas.DataFrame) -> set[int]:
    """Cases whose losses in the timed window differ from those beside them, or do not change.

    In a repetition all frameworks start from the same weights and see the same batches, which are
    others in the next one.
    """
    ends = ["loss_first", "loss_last"]
    known = ok.dropna(subset=ends)
    still = known[(known["measured_steps"] > 1) & (known["loss_first"] == known["loss_last"])]
    found = set(still["number"])
    for own, share, grown in _beside_each_other(known, LOSSES):
        middle = own.groupby("repetition")[ends].transform("median")
        moved = LOSS_MOVE * (middle["loss_first"] - middle["loss_last"]).abs()
        # a window's first step has the weights that all begin with
        beyond = (own[ends] - middle).abs() - middle * [share, grown]
        beyond = beyond.sub(moved, axis=0).groupby(own["number"]).median()
        found |= set(beyond.index[(beyond > 0).any(axis=1)])
    return found


def strange_weights(ok: pandas.DataFrame) -> set[int]:
    """Cases any repetition of which trained other weights than those beside them.

    Ranks with the whole model each must end with the same weights. Between frameworks rounding
    differs: what is compared is how far all weights went, and how many matrices did not move. How
    far they went says nothing in windows of more steps than were asked for: each has its own
    number.
    """
    whole = (ok[["tensor_parallel", "pipeline_parallel"]] == 1).all(axis=1) & (
        ok["zero_stage"] == 0
    )
    found = set(ok["number"][whole & (ok["weights_distinct"] > 1)])
    known = ok.dropna(subset=["weights_change", "weights_unchanged"])
    for own, _, share in _beside_each_other(known, CHANGES):
        first = own.iloc[0]
        if workloads.data(first["workload"])[first["data"]].loader == "readers":
            continue  # each framework has batches of its own
        unchanged = own.groupby("number")["weights_unchanged"].median().median()
        longer = own["timed_steps"] > own["measured_steps"]
        own_change = own["weights_change"].mask(longer)
        change = own_change.groupby(own["repetition"]).transform("median")
        off = own_change / change - 1
        if first["warmup_steps"] + first["measured_steps"] > CHANGE_STEPS:
            share = max(share, CHANGE_SHARE_LONG)
            if workloads.of(first["workload"]).has_dropout:
                middle = off.groupby(own["number"]).agg(["median", "count"])
                far = (middle["median"].abs() > share) & (middle["count"] >= CHANGE_REPETITIONS)
                found |= set(middle.index[far])
                share = CHANGE_SHARE_DRAWN
        found |= set(own["number"][(off.abs() > share) | (own["weights_unchanged"] > unchanged)])
    return found


def hurried(ok: pandas.DataFrame) -> set[int]:
    """Cases whose windows went faster than their own trials, in the middle of their repetitions."""
    longer = ok[ok["timed_steps"] > ok["measured_steps"]].dropna(subset=["trial_seconds"])
    paces = longer["timed_steps"] / longer["window_seconds"]
    trials = longer["measured_steps"] / longer["trial_seconds"]
    faster = (paces / trials).groupby(longer["number"]).median()
    return set(faster.index[faster > PACE])


def strange_outputs(ok: pandas.DataFrame) -> set[int]:
    """Cases that infer and answer a batch otherwise than those beside them.

    All frameworks have the same weights and the same batches, and nothing is random. Compared are
    the outputs' norm, and a fixed projection of them over that norm.
    """
    outputs, found = ["outputs_projection", "outputs_norm"], set[int]()
    known = ok.dropna(subset=outputs)
    for own, share, _ in _beside_each_other(known, OUTPUTS):
        middle = own.groupby("repetition")[outputs].transform("median")
        far = (own[outputs] - middle).abs()
        far["outputs_norm"] /= middle["outputs_norm"]
        far = far.groupby(own["number"]).median()
        found |= set(far.index[(far > share).any(axis=1)])
    return found


def _beside_each_other(
    known: pandas.DataFrame, shares: Shares
) -> Iterator[tuple[pandas.DataFrame, float, float]]:
    """The repetitions of each table, topology and layout that three cases or more have, which of
    `shares` may lie between them, and how much where rounding has grown.

    The middle of two would be neither's: less than three cases are not compared. Nor are those
    whose size was searched: each framework has found another one.
    """
    searched = known["searched"].fillna("") != ""
    for _, own in known[~searched & (known["beside"] >= 0)].groupby("beside"):
        counts = own.groupby("repetition")["number"].transform("nunique")
        own = own[counts >= 3]
        if len(own):
            first = own.iloc[0]
            share = shares.exact if first["precision"] == "fp32" else shares.rounded
            if workloads.of(first["workload"]).has_dropout:
                share = max(share, shares.random)
            grows = _rounding_grows(first["workload"])
            yield own, share, max(share, shares.grown) if grows else share


def _rounding_grows(workload: str) -> bool:
    """Whether a training's steps make rounding grow so far that its spot checks compare norms."""
    spot = workloads.spot(workload).get("fp32")
    return spot is not None and not applies(spot.long_change)


def overlapping(rows: pandas.DataFrame) -> set[str]:
    """Records whose run shared a host with another run at the same time; `rows` have SPANS.

    Both the timed windows (microseconds) and the whole runs (seconds, as records keep them) are
    compared: a repetition that only starts up disturbs the window of another one as well.
    """
    hosts = rows["nodes_used"].where(rows["nodes_used"].fillna("") != "", rows["hostname"])
    rows = rows[list(SPANS)].assign(
        # numbers in the order of the names, as these are sorted twice
        number=pandas.factorize(rows["record"], sort=True)[0],
        host=hosts.str.split(),
    )
    rows = rows.explode("host").dropna(subset=["host", "record"])
    rows["host"] = pandas.factorize(rows["host"], sort=True)[0]
    run = _overlapping(rows, "start_utc", "end_utc")
    return run | _overlapping(rows, "window_start_utc", "window_end_utc")


def _overlapping(rows: pandas.DataFrame, first: str, last: str) -> set[str]:
    stamps = partial(pandas.to_datetime, errors="coerce", utc=True, format="ISO8601")
    # without their zone, as arrays of times in zones are slow lists of objects
    times = {name: stamps(rows[name]).dt.tz_localize(None) for name in (first, last)}
    spans = rows.assign(**times)[["host", "number", "record", first, last]].dropna()
    shared: set[str] = set()
    for _, own in spans.sort_values(["host", first, last, "number"]).groupby("host"):
        start, end = own[first].to_numpy(), own[last].to_numpy()
        latest = np.maximum.accumulate(end)
        # who ends last of those that started so far
        owner = np.maximum.accumulate(
            np.where(end > np.r_[end[:1], latest[:-1]], range(len(end)), 0)
        )
        (late,) = np.nonzero(start[1:] < latest[:-1])
        shared |= {*own["record"].iloc[late + 1], *own["record"].iloc[owner[late]]}
    return shared
