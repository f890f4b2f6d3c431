"""What a check holds: of a spot run, or of tests, beside its replay how far they are apart.

In: documents of measure/spot.py and certify/replay.py, or a record of the quality scenario and that
of certify/evaluated.py; and what may be measured at most. Out: `Tier`s, of which checks.py makes
verdicts. Documents that do not fit each other raise one of UNLIKE.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dlperf.certify import judge
from dlperf.contract.proof import applies, number
from dlperf.contract.spot import Spot

#: How many deviations of chance, as a dozen draws of the formulas have them, a loss or the norms
#: may be off. By Student's t one honest run in 100,000 is further.
DEVIATIONS = 8.0
#: The least deviation of a number of rows: two of them may be off whatever chance does.
FEWEST = 2 / DEVIATIONS
#: Of the norm of all changes: what the formulas change by less is nothing but rounding, such as a
#: shift that the next norm takes away, of which bfloat16 makes ten thousand times as much.
NOTHING = 1e-7
#: What documents raise that are of different runs.
UNLIKE = (KeyError, IndexError, TypeError, ValueError, OverflowError)

#: (name, what it measured, what it may measure at most, the worst tensor)
Tier = tuple[str, float, float, str]


def own_replay(run: Mapping[str, Any], replay: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a replay says of this spot run, where each run of a group has batches, or a size, of its
    own. It says nothing of one whose exact part did not end well."""
    made_with = f"{run['identity']['framework']}/{run['identity']['compiler']}"
    return {**replay, **replay.get("own", {}).get(made_with, {})}


def of_training(run: Mapping[str, Any], replay: Mapping[str, Any], allowed: Spot) -> Iterator[Tier]:
    """(name, what it measured, what it may measure at most, the worst tensor) of each tier."""
    own = run.get("undrawn") or run
    if own["status"] != "ok":
        yield "undrawn", math.inf, 0.0, ""
        return
    made_with = f"{run['identity']['framework']}/{run['identity']['compiler']}"
    compared = [
        Compared(
            [_far(*each) for each in zip(window["loss"], replayed["loss"], strict=True)],
            _changes(window, replayed, expected),
            _norms(window, replayed),
            replayed["norms"],
            _along(window, replayed),
            _rounded(replayed),
        )
        for window, replayed, expected in zip(
            own["windows"], replay["windows"], replay["projections"][made_with], strict=True
        )
    ]
    yield from _exact(compared, allowed)
    if "batches" in own["windows"][0]:
        yield "spot-batches", float(_amiss(own)), 0.0, ""
    if "undrawn" in run:
        chance = replay["chance"]
        yield from _by_chance(run["windows"][chance["window"]], chance, allowed)
        yield from _rows(run["windows"], replay["windows"])


def _amiss(run: Mapping[str, Any]) -> int:
    """How many batches of a framework's own reader came before, as each is cropped anew, and how
    many more or fewer there are than steps take."""
    batches: list[str] = []
    unlike = 0
    for window in run["windows"]:
        wanted = len(window["loss"]) * run["identity"]["layout"]["accumulation"]
        for rank in window["batches"]:
            unlike += abs(len(rank) - wanted)
            batches += map(str, rank)
    return unlike + len(batches) - len(set(batches))


def of_inference(
    run: Mapping[str, Any], replay: Mapping[str, Any], allowed: float
) -> Iterator[Tier]:
    """The same of an inference: of all ranks the sample that is furthest off, relative, which is
    held to the tolerance of certificates."""
    made_with = f"{run['identity']['framework']}/{run['identity']['compiler']}"
    (window,) = run["windows"]
    ranks = list(zip(window["answers"], replay["answers"][made_with], strict=True))
    for name in window["answers"][0]:
        far = [_samples(answers[name], expected[name]) for answers, expected in ranks]
        yield f"spot-{name}", max(far), allowed, ""


def of_tests(
    record: Mapping[str, Any], replay: Mapping[str, Any], allowed: float
) -> Iterator[Tier]:
    """The same of tests: of all ranks the sample that is furthest off, relative, in the last test,
    and in the one that first met the target, where that is another one; how far what a model drew
    by itself is from chance; and whether the weights that the last one was replayed from are those
    that every rank ended with."""
    yield "spot-evaluated", _furthest(record["evaluated"], replay), allowed, ""
    if "at_target" in record:
        yield "spot-target", _furthest(record["at_target"], replay["at_target"]), allowed, ""
    if drawn := list(_drawn(replay)):
        yield "chance-drawn", max(drawn), DEVIATIONS, ""
    ended = {each["sha256"] for each in record["weights"]}
    yield "spot-weights", float(ended != {replay["weights_sha256"]}), 0.0, ""


def _drawn(replay: Mapping[str, Any]) -> Iterator[float]:
    """How many deviations from chance is what each rank's model drew by itself, in both tests."""
    for test in filter(None, (replay, replay.get("at_target"))):
        for each in filter(None, test["answers"]):
            if "drawn_deviations" in each:
                off = each["drawn_deviations"]
                yield math.inf if off is None else abs(off)


def _furthest(shown: Sequence[Mapping[str, Any]], replay: Mapping[str, Any]) -> float:
    """Of all ranks' batches of a test the sample that is furthest off."""
    pairs = zip(shown, replay["answers"], strict=True)
    return max(_samples(*pair) for pair in pairs if pair[1])


def _samples(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """How far a sample's outputs are from what is expected, by projections: the worst one.

    A sample is None whose outputs are not finite: then those that are expected may not be, either.
    Of a test, those count that were replayed, and rounding decides nothing in them.
    """
    if answer["shape"] != expected["shape"]:
        return math.inf
    pairs = list(zip(answer["samples"], expected["samples"], strict=True))
    far = [_off(*pairs[place]) for place in expected.get("replayed", range(len(pairs)))]
    return max(math.inf if math.isnan(each) else each for each in far)


def _off(own: Any, wanted: Any) -> float:
    """How far the outputs of one sample are off, relative."""
    if own is None or wanted is None:
        return 0.0 if own is wanted else math.inf
    return _ratio(_apart(own[1], wanted[1]), wanted[0])


def _apart(sums: Sequence[float], others: Sequence[float]) -> float:
    """The root mean square of the differences of two arrays' projections."""
    return math.sqrt(
        statistics.fmean((one - other) ** 2 for one, other in zip(sums, others, strict=True))
    )


class Compared(NamedTuple):
    """A window beside its replay: of each step's loss, of each tensor's change and of its norm how
    far it is, relative; the norms of the replay's changes; and how far each matrix' change is off
    along its starting weights. Documents of before have no such products. rounded: how far each
    change of the formulas themselves is in float32, where that was computed."""

    losses: list[float]
    changes: dict[str, float]
    norms: dict[str, float]
    lengths: Mapping[str, float]
    along: Mapping[str, float]
    rounded: Mapping[str, float]


def _exact(windows: Sequence[Compared], allowed: Spot) -> Iterator[Tier]:
    """The tiers of a training that draws no random numbers."""
    short, *others = sorted(windows, key=lambda each: len(each.losses))
    yield "spot-loss", max(each.losses[0] for each in windows), allowed.loss, ""
    if short.losses[1:]:
        yield "spot-losses", max(short.losses[1:]), allowed.losses, ""
    place = min(len(short.losses), 2) - 1
    if applies(change := allowed.change[place]):
        yield "spot-change", _median(short.changes), number(change), ""
    if applies(change := allowed.change_worst[place]):
        tensor, worst = _worst(short.changes, short.lengths)
        yield "spot-change-worst", worst, number(change), tensor
    if applies(change := allowed.change_last[place]):
        last = list(short.changes)[-1]
        yield "spot-change-last", short.changes[last], number(change), last
    if short.along and applies(along := allowed.along[place]):
        yield "spot-along", _median(short.along), number(along), ""
    yield from _of_rounding("spot-rounding", short, allowed)
    for long in others:
        yield "window-norm", _median(long.norms), allowed.norm, ""
        tensor, worst = _worst(long.norms, long.lengths)
        yield "window-norm-worst", worst, allowed.norm_worst, tensor
        if applies(allowed.long_change):
            yield "window-change", _median(long.changes), number(allowed.long_change), ""
        yield from _of_rounding("window-rounding", long, allowed)


def _of_rounding(name: str, window: Compared, allowed: Spot) -> Iterator[Tier]:
    """How far changes are off, in units of what float32 makes of the formulas: what a size or a
    depth makes of rounding, it makes of both."""
    units = {each: window.changes[each] / far for each, far in window.rounded.items() if far}
    if units and applies(allowed.rounding):
        yield name, _median(units), number(allowed.rounding), ""


def drowned(replay: Mapping[str, Any], allowed: Spot) -> str:
    """Why a replay shows nothing, or "": in float32 the formulas themselves are as far from it as
    an implementation may be. Of two values a channel, batch-norm makes anything of a rounding.
    A GPU's replay is in float32 itself, and does not say."""
    windows = []
    for each in replay["windows"]:
        rounded, lengths = each["rounded"], each["norms"]
        if rounded is None:
            return ""
        windows.append(
            Compared(
                [_far(*pair) for pair in zip(rounded["loss"], each["loss"], strict=True)],
                _rounded(each),
                {
                    name: _ratio(abs(norm - lengths[name]), lengths[name])
                    for name, norm in rounded["norms"].items()
                },
                lengths,
                {
                    name: _far(product, each["along"][name])
                    for name, product in rounded.get("along", {}).items()
                },
                {},
            )
        )
    for name, measured, tolerance, _ in _exact(windows, allowed):
        if not judge.passes(measured, tolerance):
            return (
                f"at this size rounding alone moves the formulas themselves by {measured:.2g} in "
                f"{name}, where {tolerance:g} is allowed"
            )
    return ""


def _by_chance(
    window: Mapping[str, Any], chance: Mapping[str, Any], allowed: Spot
) -> Iterator[Tier]:
    """How many deviations a training that draws random numbers is from the formulas' own draws.

    Rounding counts as chance: in some tensors, such as scales, it moves a norm more than dropout
    does. As much of it as an exact replay may show is DEVIATIONS of these.
    """

    def deviations(found: float, drawn: Sequence[float], rounding: float) -> float:
        mean, deviation = drawn
        by_draws = deviation**2 * (1 + 1 / chance["draws"])  # the mean of a dozen is uncertain, too
        by_rounding = (rounding * mean / DEVIATIONS) ** 2
        return abs(found - mean) / max(math.sqrt(by_draws + by_rounding), 1e-300)

    loss = deviations(window["loss"][0], chance["loss"][0], allowed.loss)
    yield "chance-loss", loss, DEVIATIONS, ""
    least = NOTHING * math.sqrt(math.fsum(mean**2 for mean, _ in chance["norms"].values()))
    squares = [
        deviations(norm, drawn, allowed.norm_worst) ** 2
        for name, drawn in chance["norms"].items()
        for norm, *_ in window["tensors"][name]
        if drawn[0] > least
    ]
    yield "chance-norms", math.sqrt(statistics.fmean(squares)), DEVIATIONS, ""


def _rows(
    windows: Sequence[Mapping[str, Any]], replayed: Sequence[Mapping[str, Any]]
) -> Iterator[Tier]:
    """How many deviations the number of rows that changed is from the replay's, in the table, copy
    and window that are furthest off, where steps draw samples of a table's rows.

    Both have samples of the same sizes from the same labels. Documents of before count no rows.
    """
    found: dict[str, float] = {}
    for window, wanted in zip(windows, replayed, strict=True):
        for name, counts in window.get("rows", {}).items():
            if name in (known := wanted.get("rows", {})):
                changed, rows = known[name]
                by_chance = _deviation_of_union(changed, rows, len(wanted["loss"]))
                far = max(abs(count - changed) for count in counts) / by_chance
                found[name] = max(far, found.get(name, 0.0))
    if found:
        name = max(found, key=lambda each: found[each])
        yield "chance-rows", found[name], DEVIATIONS, name


def _deviation_of_union(changed: int, rows: int, samples: int) -> float:
    """By how much two numbers of different rows in so many samples of one size differ by chance.

    The variance of how many of `rows` no sample has, which are drawn without replacement (the
    classical occupancy problem; Johnson and Kotz 1977); twice, as both are drawn. Of one sample it
    is none, and a few rows may still differ, which rounding left as they were.
    """
    size = rows * (1 - (1 - changed / rows) ** (1 / samples))
    none = (1 - size / rows) ** samples
    both = ((1 - size / rows) * (1 - size / max(rows - 1, 1))) ** samples
    variance = rows * (rows - 1) * both + rows * none - (rows * none) ** 2
    return math.sqrt(max(2 * variance, FEWEST**2))


def _rounded(replayed: Mapping[str, Any]) -> dict[str, float]:
    """How far each change of the formulas is in float32, over its norm; {} where it is unknown."""
    own, lengths = replayed["rounded"], replayed["norms"]
    return {name: _ratio(far, lengths[name]) for name, far in own["far"].items()} if own else {}


def _far(found: float, expected: float) -> float:
    return abs(found - expected) / max(abs(expected), 1e-300)


def _changes(
    window: Mapping[str, Any], replayed: Mapping[str, Any], expected: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """How far each tensor's change is from the replay's, over its norm: of its copies the worst.

    By projections: contract/projection.py.
    """
    found = {}
    for name, norm in replayed["norms"].items():
        far = [_apart(sums, expected[name]) for _, sums, *_ in window["tensors"][name]]
        found[name] = _ratio(max(far), norm)
    return found


def _norms(window: Mapping[str, Any], replayed: Mapping[str, Any]) -> dict[str, float]:
    """How far the norm of each tensor's change is from the replay's."""
    return {
        name: _ratio(max(abs(own - norm) for own, *_ in window["tensors"][name]), norm)
        for name, norm in replayed["norms"].items()
    }


def _along(window: Mapping[str, Any], replayed: Mapping[str, Any]) -> dict[str, float]:
    """How far each matrix' change is from the replay's along its starting weights, of its copies
    the worst; {} of documents that have no products."""
    return {
        name: max(_far(along[0], product) for _, _, *along in window["tensors"][name])
        for name, product in replayed.get("along", {}).items()
        if all(len(each) > 2 for each in window["tensors"][name])
    }


def _ratio(difference: float, norm: float) -> float:
    return difference / norm if norm else (0.0 if not difference else math.inf)


def _median(ratios: Mapping[str, float]) -> float:
    values = [math.inf if math.isnan(each) else each for each in ratios.values()]
    return statistics.median(values)


def _worst(ratios: Mapping[str, float], norms: Mapping[str, float]) -> tuple[str, float]:
    """(name, ratio) of the tensor that is furthest off.

    Each is held to at least a small share of all changes: what a shift before a norm becomes is
    nothing but rounding.
    """
    least = judge.SHARE * math.sqrt(math.fsum(norm**2 for norm in norms.values()))
    held = {
        name: ratio * norms[name] / max(norms[name], least) if norms[name] else ratio
        for name, ratio in ratios.items()
    }
    name = max(held, key=lambda each: math.inf if math.isnan(held[each]) else held[each])
    return name, held[name]
