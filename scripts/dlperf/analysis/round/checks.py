"""Spot runs, tests and their replays -> checks.tsv, and what they mean for a cell.

In: the plan, checks/ of the round, and records of the quality scenario. Out: a row a tier of every
case's check; where there is none a row with its reason. The verdict is computed here, from the
proof's tolerances, and so by an audit, too; what a replay computed is taken from its file. As with
records, a file that is not what its path says stops the merge.
"""

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from dlperf import scenarios
from dlperf.analysis.round import ran
from dlperf.analysis.round.flags import DIFFERENT
from dlperf.analysis.round.records import whole
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Check
from dlperf.certify import judge, required
from dlperf.contract import draws, strict_json
from dlperf.contract.proof import Spot, applies, number
from dlperf.measure import bounds, spot
from dlperf.plan import Case, Config, document
from dlperf.plan.checked import unchecked, unreplayed
from dlperf.scenarios import quality

#: How many deviations of chance, as a dozen draws of the formulas have them, a loss or the norms
#: may be off. By Student's t one honest run in 100,000 is further.
DEVIATIONS = 8.0
#: The cells of a round that spot runs prove; the others have a certificate alone.
PASSED, FAILED, ALONE, MISSING, STALE = (
    "passed",
    "failed",
    "certificate only",
    "missing",
    "stale",
)
REPLAY, EVALUATED, RECORD = "dlperf.replay/1", "dlperf.evaluated/1", "dlperf.record/2"
#: What a replay raises that is of another run.
UNLIKE = (KeyError, IndexError, TypeError, ValueError, OverflowError)

Tier = tuple[str, float, float, str]


def read(config: Config, cases: Iterable[Case], folder: Path) -> list[Check]:
    """Rows of checks.tsv, in the order of the plan.

    Raises AnalysisError, which names every file that is none or is another one's.
    """
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    replays: dict[str, tuple[Any, str]] = {}
    for case in cases:
        if case.unsupported:
            continue
        own = {"workload": case.workload, "framework": case.framework, "case": case.name}
        if scenarios.curved(case.scenario):
            rows += [{**own, **each} for each in _of_tests(config, case, folder, problems)]
            continue
        if why := unchecked(config, case):
            rows.append({**own, "status": ALONE, "reason": why})
            continue
        paths = draws.spot_run_of(case), draws.replay_of(case)
        try:
            run, run_sha256 = _document(folder / paths[0], spot.SCHEMA)
            if paths[1] not in replays:
                replays[paths[1]] = _document(folder / paths[1], REPLAY)
            replay, replay_sha256 = replays[paths[1]]
        except FileNotFoundError:
            rows.append({**own, "status": MISSING, "reason": "not made yet"})
            continue
        except ValueError as error:
            problems.append(str(error))
            continue
        wanted = case.identity(config.round, 1)
        if run["identity"] != wanted and whole(run["identity"], case.workload) != wanted:
            problems.append(f"{folder / paths[0]}: is of another case than its path says")
            continue
        provenance = run["provenance"]
        own |= {
            **{key: provenance.get(key, "") for key in columns.MADE_WITH},
            **ran.of_document(run),
            "spot_run": paths[0],
            "spot_run_sha256": run_sha256,
            "replay": paths[1],
            "replay_sha256": replay_sha256,
        }
        rows += [{**own, **each} for each in _judged(case, run, replay)]
    if problems:
        raise AnalysisError(
            "\n".join(problems) + "\nThese are no spot runs or replays of this round, so nothing "
            "was merged. Remove them and run the same command again: they are made anew."
        )
    return cast(list[Check], rows)


def _document(path: Path, schema: str) -> tuple[Any, str]:
    content = path.read_bytes()
    try:
        document = strict_json.parse(content)
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON, perhaps half-written: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ValueError(f"{path}: is no {schema}")
    return document, hashlib.sha256(content).hexdigest()


def _judged(
    case: Case, run: Mapping[str, Any], replay: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows of a case whose files are there."""
    if run["status"] != "ok":
        yield {"status": MISSING, "reason": f"spot run: {run['status']}: {run['reason']}"}
        return
    if replay["status"] != "ok":
        yield {"status": ALONE, "reason": replay["reason"]}
        return
    kind = required.kind(case.precision, run["parity"].get("compute_dtype") or "")
    allowed = bounds.allowed(case, kind)
    if allowed is None:
        yield {"status": ALONE, "reason": f"no tolerances of spot runs are known in {kind}"}
        return
    if not scenarios.load(case.scenario).TRAINS:
        yield from _rows_of(lambda: answer_tiers(run, replay, allowed))
        return
    try:
        why = drowned(replay, allowed)
    except UNLIKE as error:
        yield _unlike(error)
        return
    if why:
        yield {"status": ALONE, "reason": why}
    else:
        yield from _rows_of(lambda: tiers(run, replay, allowed))


def _rows_of(measure: Callable[[], Iterable[Tier]]) -> Iterator[dict[str, Any]]:
    """A row a tier, of what `measure` gives."""
    try:
        found = list(measure())
    except UNLIKE as error:
        yield _unlike(error)
        return
    status = PASSED if all(judge.passes(each[1], each[2]) for each in found) else FAILED
    for name, measured, tolerance, tensor in found:
        finite = math.isfinite(measured)
        yield {
            "status": status,
            "tier": name,
            "tier_passed": str(judge.passes(measured, tolerance)).lower(),
            "measured": measured if finite else None,
            "tolerance": tolerance,
            "worst_tensor": tensor,
            "reason": "" if finite else "what it measured is not a finite number",
        }


def _unlike(error: Exception) -> dict[str, Any]:
    reason = f"spot run and replay do not fit each other: {type(error).__name__}: {error}"
    return {"status": FAILED, "reason": reason}


def _of_tests(
    config: Config, case: Case, folder: Path, problems: list[str]
) -> Iterator[dict[str, Any]]:
    """Rows of a case of the quality scenario: of all its repetitions the worst one of each tier.

    A repetition that did not end well has no score, and needs no proof. Files that are no replays
    are added to `problems`.
    """
    if why := unreplayed(config, case):
        yield {"status": ALONE, "reason": why}
        return
    target = document(case, config, 1)["settings"]["target"]
    found: list[dict[str, Any]] = []
    for repetition in range(1, config.repetitions + 1):
        paths = f"runs/{case.folder}/rep{repetition}.json", draws.evaluation_of(case, repetition)
        try:
            record, record_sha256 = _document(folder / paths[0], RECORD)
        except FileNotFoundError:
            continue
        except ValueError:
            return  # the merge of records says what is wrong with it
        if record["status"] != "ok":
            continue
        own = {key: record["provenance"].get(key, "") for key in columns.MADE_WITH}
        own |= {**ran.of_document(record), "spot_run": paths[0], "spot_run_sha256": record_sha256}
        replay = None
        if record.get("evaluated"):
            try:
                replay, own["replay_sha256"] = _document(folder / paths[1], EVALUATED)
                own["replay"] = paths[1]
            except FileNotFoundError:
                pass
            except ValueError as error:
                problems.append(str(error))
                return
        judged = _judged_test(case, target, record, record_sha256, replay)
        found += [{**own, **each} for each in judged]
    yield from _worst_of(found)


def _judged_test(
    case: Case,
    target: float,
    record: Mapping[str, Any],
    sha256: str,
    replay: Mapping[str, Any] | None,
) -> Iterator[dict[str, Any]]:
    """Rows of a repetition of the quality scenario. target: the config's."""
    if not record.get("evaluated"):
        yield {"status": ALONE, "reason": "a record names no batch of its evaluations"}
    elif not _names_what_met(record, target):
        yield {
            "status": ALONE,
            "reason": f"no batch of the evaluation that first met the target, {target:g}, is named",
        }
    elif replay is None:
        yield {"status": MISSING, "reason": "not made yet"}
    elif replay["status"] != "ok":  # without PyTorch's environment it knows nothing of a record
        yield {"status": ALONE, "reason": replay["reason"]}
    elif replay["record_sha256"] != sha256:
        yield {"status": MISSING, "reason": "its replay is of another record than is there now"}
    else:
        kind = required.kind(case.precision, record["parity"].get("compute_dtype") or "")
        allowed = bounds.allowed_answers(case, kind)
        if allowed is None:
            yield {"status": ALONE, "reason": f"no tolerances of outputs are known in {kind}"}
            return
        yield from _rows_of(lambda: evaluation_tiers(record, replay, allowed))


def _names_what_met(record: Mapping[str, Any], target: float) -> bool:
    """Whether a batch is named of the test at which the training first met this target.

    The config may have had another target when the training was measured.
    """
    try:
        met, then = quality.first_at(record, target), quality.reached(record)
        last = record["curve"][-1]
    except UNLIKE:
        return True  # the merge of records says what is wrong with it
    return met is None or met is last or (met is then and "at_target" in record)


def _worst_of(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of rows of all repetitions those of a case: if one failed, it has failed; if one is not
    proved, it is not."""
    for status in (FAILED, MISSING, ALONE):
        found = [row for row in rows if row["status"] == status]
        if found and not any(row.get("tier") for row in found):
            yield found[0]
            return
        if found:
            rows = found
            break
    for name in dict.fromkeys(row["tier"] for row in rows if row.get("tier")):
        yield max((row for row in rows if row.get("tier") == name), key=_excess)


def _excess(row: Mapping[str, Any]) -> float:
    """What orders rows of a tier by how bad they are."""
    return math.inf if row["measured"] is None else row["measured"]


def tiers(run: Mapping[str, Any], replay: Mapping[str, Any], allowed: Spot) -> Iterator[Tier]:
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
        )
        for window, replayed, expected in zip(
            own["windows"], replay["windows"], replay["projections"][made_with], strict=True
        )
    ]
    yield from _exact(compared, allowed)
    if "undrawn" in run:
        chance = replay["chance"]
        yield from _by_chance(run["windows"][chance["window"]], chance, allowed)


def answer_tiers(
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


def evaluation_tiers(
    record: Mapping[str, Any], replay: Mapping[str, Any], allowed: float
) -> Iterator[Tier]:
    """The same of tests: of all ranks the sample that is furthest off, relative, in the last test,
    and in the one that first met the target, where that is another one; and whether the weights
    that the last one was replayed from are those that every rank ended with."""
    yield "spot-evaluated", _furthest(record["evaluated"], replay), allowed, ""
    if "at_target" in record:
        yield "spot-target", _furthest(record["at_target"], replay["at_target"]), allowed, ""
    ended = {each["sha256"] for each in record["weights"]}
    yield "spot-weights", float(ended != {replay["weights_sha256"]}), 0.0, ""


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
    far it is, relative; and the norms of the replay's changes."""

    losses: list[float]
    changes: dict[str, float]
    norms: dict[str, float]
    lengths: Mapping[str, float]


def _exact(windows: Sequence[Compared], allowed: Spot) -> Iterator[Tier]:
    """The tiers of a training that draws no random numbers."""
    short, *others = sorted(windows, key=lambda each: len(each.losses))
    yield "spot-loss", max(each.losses[0] for each in windows), allowed.loss, ""
    if short.losses[1:]:
        yield "spot-losses", max(short.losses[1:]), allowed.losses, ""
    place = min(len(short.losses), 2) - 1
    yield "spot-change", _median(short.changes), allowed.change[place], ""
    tensor, worst = _worst(short.changes, short.lengths)
    yield "spot-change-worst", worst, allowed.change_worst[place], tensor
    for long in others:
        yield "window-norm", _median(long.norms), allowed.norm, ""
        tensor, worst = _worst(long.norms, long.lengths)
        yield "window-norm-worst", worst, allowed.norm_worst, tensor
        if applies(allowed.long_change):
            yield "window-change", _median(long.changes), number(allowed.long_change), ""


def drowned(replay: Mapping[str, Any], allowed: Spot) -> str:
    """Why a replay shows nothing, or "": in float32 the formulas themselves are as far from it as
    an implementation may be. Of two values a channel, batch-norm makes anything of a rounding."""
    windows = []
    for each in replay["windows"]:
        rounded, lengths = each["rounded"], each["norms"]
        windows.append(
            Compared(
                [_far(*pair) for pair in zip(rounded["loss"], each["loss"], strict=True)],
                {name: _ratio(far, lengths[name]) for name, far in rounded["far"].items()},
                {
                    name: _ratio(abs(norm - lengths[name]), lengths[name])
                    for name, norm in rounded["norms"].items()
                },
                lengths,
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
    squares = [
        deviations(norm, drawn, allowed.norm_worst) ** 2
        for name, drawn in chance["norms"].items()
        for norm, _ in window["tensors"][name]
    ]
    yield "chance-norms", math.sqrt(statistics.fmean(squares)), DEVIATIONS, ""


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
        far = [_apart(sums, expected[name]) for _, sums in window["tensors"][name]]
        found[name] = _ratio(max(far), norm)
    return found


def _norms(window: Mapping[str, Any], replayed: Mapping[str, Any]) -> dict[str, float]:
    """How far the norm of each tensor's change is from the replay's."""
    return {
        name: _ratio(max(abs(own - norm) for own, _ in window["tensors"][name]), norm)
        for name, norm in replayed["norms"].items()
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


def by_case(rows: Iterable[Check]) -> dict[tuple[str, str, str], list[Check]]:
    """Rows of checks.tsv by workload, framework and case."""
    found: dict[tuple[str, str, str], list[Check]] = {}
    for row in rows:
        found.setdefault((row["workload"], row["framework"], row["case"]), []).append(row)
    return found


def standing(rows: Sequence[Check], made_with: Iterable[tuple[str, ...]]) -> str:
    """What a check says of a cell whose records were made with this code and these locks.

    '' of a scenario without checks; 'stale' where it passed with another code or lock.
    """
    if not rows:
        return ""
    status = rows[0]["status"]
    own = {tuple(str(rows[0].get(key) or "") for key in columns.MADE_WITH)}
    return STALE if status == PASSED and set(made_with) - own else status


def first_failed(rows: Sequence[Check]) -> Check | None:
    """The first tier that did not pass."""
    return next((row for row in rows if row["tier_passed"] == "false"), None)


def flags(rows: Sequence[Check], made_with: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The flags of such a cell."""
    status = standing(rows, made_with)
    if status == FAILED:
        failed = first_failed(rows)
        yield f"{DIFFERENT}:{failed['tier'] if failed else 'unlike'}"
    elif status == MISSING:
        yield f"{DIFFERENT}:missing"
    elif status == STALE:
        yield "check-stale"
