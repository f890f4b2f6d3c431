"""Spot runs, tests and their replays -> checks.tsv, and what they mean for a cell.

In: the plan, checks/ of the round, and records of the quality scenario. Out: a row a tier of every
case's check; where there is none a row with its reason. The verdict is computed here, from the
proof's tolerances, and so by an audit, too; what a replay computed is taken from its file. As with
records, a file that is not what its path says stops the merge.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from dlperf import scenarios
from dlperf.analysis.round import ran, tiers
from dlperf.analysis.round.flags import DIFFERENT
from dlperf.analysis.round.records import whole
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Check
from dlperf.certify import judge, required
from dlperf.contract import draws, strict_json
from dlperf.measure import bounds, spot
from dlperf.plan import Case, Config, document, searches
from dlperf.plan.checked import unchecked, unreplayed
from dlperf.scenarios import quality

#: The cells of a round that spot runs prove; the others have a certificate alone.
PASSED, FAILED, ALONE, MISSING, STALE = (
    "passed",
    "failed",
    "certificate only",
    "missing",
    "stale",
)
REPLAY, EVALUATED, RECORD = "dlperf.replay/1", "dlperf.evaluated/1", "dlperf.record/2"


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
            case = searches.found(case, folder)
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
        # at the largest size that fits, one run of a few may not fit
        status = ALONE if case.searched and run["status"] == "oom" else MISSING
        yield {"status": status, "reason": f"spot run: {run['status']}: {run['reason']}"}
        return
    replay = tiers.own_replay(run, replay)
    if replay["status"] != "ok":
        yield {"status": ALONE, "reason": replay["reason"]}
        return
    kind = required.kind(case.precision, run["parity"].get("compute_dtype") or "")
    allowed = bounds.allowed(case, kind)
    if allowed is None:
        yield {"status": ALONE, "reason": f"no tolerances of spot runs are known in {kind}"}
        return
    if not scenarios.load(case.scenario).TRAINS:
        yield from _rows_of(lambda: tiers.of_inference(run, replay, allowed))
        return
    try:
        why = tiers.drowned(replay, allowed)
    except tiers.UNLIKE as error:
        yield _unlike(error)
        return
    if why:
        yield {"status": ALONE, "reason": why}
    else:
        yield from _rows_of(lambda: tiers.of_training(run, replay, allowed))


def _rows_of(measure: Callable[[], Iterable[tiers.Tier]]) -> Iterator[dict[str, Any]]:
    """A row a tier, of what `measure` gives."""
    try:
        found = list(measure())
    except tiers.UNLIKE as error:
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
        yield from _rows_of(lambda: tiers.of_tests(record, replay, allowed))


def _names_what_met(record: Mapping[str, Any], target: float) -> bool:
    """Whether a batch is named of the test at which the training first met this target.

    The config may have had another target when the training was measured.
    """
    try:
        met, then = quality.first_at(record, target), quality.reached(record)
        last = record["curve"][-1]
    except tiers.UNLIKE:
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
