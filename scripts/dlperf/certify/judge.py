"""Raw differences -> tiers of a certificate, each passed or not.

Which tiers there are, and their tolerances, is for required.py to say; here is what they measure.
Differences are by tensor, relative: |found - expected| / |expected|, norms over the tensor. Right
implementations stay well below the tolerances, every wrong setting that is tested
(tests/certificates/) lies above in at least one tier (docs/certificates.md has the measurements).
"""

import math
import operator
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dlperf import workloads
from dlperf.certify import required
from dlperf.certify.required import Subject
from dlperf.contract.proof import Step, Tolerances, applies, number

#: In the quality scenario whose steps are in float32, so many losses count: the third one sees
#: the second rate. Behind them its rates, up to twice the usual one, make rounding grow to 5e-3.
FREE_STEPS = 3
#: Of the norm of all gradients, where the timed step has weights of its own: less than that counts
#: as so much.
SHARE = 3e-3
#: How far an implementation's long run may be from the reference's: this share of what other
#: batches make of it, in half precision or TF32 and in float32, both at least three times what any
#: implementation of BERT, ELECTRA, GPT and Wide & Deep measured.
SPREAD_NARROW, SPREAD_FULL = 0.12, 1e-3
#: And so many times as far as one bit of the weights leads, as in networks that are chaotic an
#: implementation's own rounding leads further: up to 10.7 times (docs/certificates.md).
BITS = 12.0

#: A tier's name, what it measured, and where: the tensor or the step.
Measured = tuple[str, float, dict[str, Any]]


def tiers(
    subject: Subject,
    manifest: Mapping[str, Any],
    reference: Mapping[str, Any],
    runs: Mapping[str, Mapping[str, Any]],
    without: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The tiers of a pair, in their order; one that is not applicable has `passed` None.

    manifest: of the reference, with its `long_run` where one is asked for; reference: its entry for
    this number of parts, or of an inference the manifest. runs: what rank 0 left, or {"status",
    "reason"} of a failure, by name. without:
    runs that were left out. Where the model is another one, `shapes` is the only tier; where a run
    failed, the first of its tiers says so for all of them.
    """
    first = runs.get("timed") or runs["float64"]
    shapes = _shapes(first)
    if not shapes["passed"]:
        return [shapes]
    dtype = compute_dtype(first)
    failures: dict[str, dict[str, Any]] = {}
    measured: dict[str, tuple[float, dict[str, Any]]] = {}
    for run, facts in runs.items():
        if failure := _failure(run, subject, manifest, reference, facts):
            failures[run] = failure
        else:
            found = _measured(run, subject, dtype, manifest, reference, facts)
            measured |= {name: (value, worst) for name, value, worst in found}
    judged, told = [shapes], set[str]()
    for tier in required.tiers(subject, dtype, without)[1:]:
        if tier.tolerance is None:
            judged.append({"name": tier.name, "passed": None, "reason": required.NO_FLOAT64})
        elif tier.run not in failures:
            judged.append(_tier(tier.name, *measured[tier.name], tier.tolerance))
        elif tier.run not in told:
            failure = failures[tier.run]
            judged.append(failure if "name" in failure else failed(tier.name, failure))
            told.add(tier.run)
    return judged


def compute_dtype(facts: Mapping[str, Any]) -> str:
    """The type that a run's process says that it computes in; "" where it left nothing."""
    return str(facts.get("parity", {}).get("compute_dtype", ""))


def _shapes(facts: Mapping[str, Any]) -> dict[str, Any]:
    if facts["status"] != "ok":
        return failed("shapes", facts)
    wrong = facts["shapes"]
    worst = {"tensor": wrong[0][0], "expected": wrong[0][1], "found": wrong[0][2]} if wrong else {}
    return _tier("shapes", len(wrong), worst, 0)


def _failure(
    run: str,
    subject: Subject,
    manifest: Mapping[str, Any],
    reference: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Why a run shows none of its tiers: status and reason, or a tier of its own; else {}."""
    if facts["status"] != "ok":
        return {"status": facts["status"], "reason": facts["reason"]}
    if facts["shapes"]:
        tensor, expected, found = facts["shapes"][0]
        return {"status": "another model", "reason": f"{tensor} is {found}, not {expected}"}
    if run == "float64" and facts["data_digest"] != reference["data_digest"][0]:
        return _tier("input", 1, {"found": facts["data_digest"]}, 0)
    if run == "long" and not workloads.proof(subject.workload).long_runs.get(subject.variant):
        reason = "proof.py has no long run of it (certify.reference --long-runs prints them)"
        return {"status": "not measured", "reason": reason}
    if run == "long" and manifest["long_run"]["status"] != "ok":
        return {"status": "not measured", "reason": manifest["long_run"]["reason"]}
    return {}


def _measured(
    run: str,
    subject: Subject,
    dtype: str,
    manifest: Mapping[str, Any],
    reference: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Iterator[Measured]:
    """What a run measured, in tiers that are required and in others."""
    allowed = required.tolerances(subject.workload, subject.precision, dtype)
    scenario = workloads.scenario_of(subject.variant)
    if run == "long":
        others = workloads.proof(subject.workload).long_runs[subject.variant]
        share = SPREAD_NARROW if applies(allowed.least_error) else SPREAD_FULL
        yield _long_run(manifest["long_run"]["mean_losses"], others, share, facts)
    elif scenario == "infer":
        yield from _outputs(run, number(allowed.outputs), facts)
    elif run == "float64":
        yield from _float64(reference, facts)
    elif run == "timed":
        yield from _timed(allowed, manifest, reference, facts)
    else:
        yield from _free(reference, facts, FREE_STEPS if scenario == "quality" else None)


def _outputs(run: str, tolerance: float, facts: Mapping[str, Any]) -> Iterator[Measured]:
    """An inference: its outputs, in float64 or as they are timed."""
    yield f"{run}-outputs", facts["distance"], {}
    if run == "timed":
        yield "timed-largest", sum(margin > tolerance for margin in facts["flipped"]), {}
        yield "timed-permuted", facts["permuted"], {}
        yield "timed-alone", facts["alone"], {}


def _long_run(
    own: Sequence[float], others: Sequence[float], share: float, facts: Mapping[str, Any]
) -> Measured:
    """Mean loss of a run of LONG_STEPS, beside the reference's own in float32 on the same batches.

    Measured is the distance from the middle of `own`, which differ by one bit of the weights, over
    what is allowed: a share of half of what these and the reference's runs on other batches span,
    and BITS times half of what `own` span, but at most all of that half.
    """
    middle = (min(own) + max(own)) / 2
    by_a_bit = (max(own) - min(own)) / 2
    by_batches = (max(*others, *own) - min(*others, *own)) / 2
    width = min(by_batches, share * by_batches + BITS * by_a_bit)
    mean = sum(facts["loss"]) / len(facts["loss"])
    worst = {"mean_loss": mean, "expected": middle, "at_most": width}
    return "long-run", abs(mean - middle) / width, worst


def _float64(reference: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Measured]:
    losses, compared = _distances(facts["loss"], reference["loss"]), facts["compared"]
    yield "float64-loss", losses[0], {"step": 1}
    yield _worst("float64-gradient", compared["first"])
    yield _worst_step("float64-losses", losses)
    yield _worst("float64-update", compared["last"])
    if "statistics" in compared:
        yield _worst("float64-statistics", compared["statistics"])
    if "again_loss" in facts:
        yield from _again("float64", reference, facts)
        yield "float64-tested", facts["tested"], {}


def _timed(
    allowed: Tolerances,
    manifest: Mapping[str, Any],
    reference: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Iterator[Measured]:
    compared = facts["compared"]
    if "parts" in facts:  # other ones than the layout's
        reference = manifest["parts"][str(facts["parts"])]
    own = "timed_loss" in reference  # of other weights
    expected = reference["timed_loss"] if own else reference["loss"][0]
    gradient, share = compared["gradient"], SHARE if own else 0.0
    yield from _step("timed", facts["loss"][0], expected, gradient, share)
    if applies(allowed.least_error):
        # In half precision: less of an error than its rounding makes is another precision.
        yield "timed-precision", number(allowed.least_error) / max(_median(gradient), 1e-300), {}
    if "statistics" in compared:
        yield _worst("timed-statistics", compared["statistics"])
    if "neutral" in compared:
        of_neutral, loss = facts["neutral_loss"][0], reference["loss"][0]
        yield from _step("timed-neutral", of_neutral, loss, compared["neutral"])
    for place, losses in facts.get("dropped", {}).items():
        # the middle one: in one in some dozens a single element is kept, and is enormous, or in
        # float16 infinite, and the loss is not a number: NaN is as far as can be
        distances = sorted(
            math.inf if math.isnan(each) else each
            for each in _distances(losses, manifest["dropped"][place])
        )
        yield required.of_dropout(place), distances[len(distances) // 2], {}
    if "scattered" in facts:
        yield from _scattered(facts["scattered"], manifest["scattered"], allowed.step)
    if "sampler" in facts:
        wrong = facts["sampler"]
        yield "sampler", len(wrong), {"found": wrong[0]} if wrong else {}
    if "optimizer" in compared:
        yield _worst("optimizer", compared["optimizer"])
    if "tested" in facts:
        yield "timed-tested", facts["tested"], {}


def _scattered(losses: list[float], drawn: Mapping[str, Any], allowed: Step) -> Iterator[Measured]:
    """The random numbers of dropout, by losses from the same weights on the same few batches.

    In deviations of what chance makes of as many losses of the formulas' own: their mean (where it
    is further off than rounding may make it), their deviation from the mean of their batch (that of
    ln s is sqrt(k - 1) / 2 over the root of their count, where k is the kurtosis), and the largest
    correlation with those of so many steps before: 0 where each step draws its own.
    """
    count, draws = len(losses), drawn["draws"]
    deviations = [
        (loss - mean) / deviation
        for loss, mean, deviation in zip(losses, drawn["mean"], drawn["deviation"], strict=True)
    ]
    if not all(map(math.isfinite, deviations)):
        yield from ((f"dropout-{each}", math.inf, {}) for each in ("mean", "deviation", "repeats"))
        return
    mean = math.fsum(deviations) / count
    rounding = allowed.loss * max(map(operator.truediv, drawn["mean"], drawn["deviation"]))
    beyond = max(abs(mean) - rounding, 0.0) / math.sqrt(1 / count + 1 / draws)
    yield "dropout-mean", beyond, {"mean": mean}
    of_batch: dict[int, list[float]] = {}
    for batch, each in zip(drawn["batch"], deviations, strict=True):
        of_batch.setdefault(batch, []).append(each)
    left = [
        each - statistics.fmean(of_batch[batch])
        for batch, each in zip(drawn["batch"], deviations, strict=True)
    ]
    if not any(left):  # a batch's losses are one: neither a logarithm nor a correlation
        left = [1e-9] * count
    free = count - len(of_batch)
    scale = math.sqrt(math.fsum(each**2 for each in left) / free)
    by_chance = math.sqrt(max(drawn["kurtosis"] - 1, 1.0) * (1 / free + 1 / draws)) / 2
    yield "dropout-deviation", abs(math.log(scale)) / by_chance, {"deviation": scale}
    lags = {
        lag: math.fsum(map(operator.mul, left, left[lag:])) / (scale**2 * math.sqrt(count - lag))
        for lag in range(1, count // 2 + 1)
    }
    lag = max(lags, key=lambda each: lags[each])
    yield "dropout-repeats", max(lags[lag], 0.0), {"steps_before": lag}


def _step(
    name: str,
    loss: float,
    expected: float,
    gradient: Mapping[str, list[float]],
    share: float = 0.0,
) -> Iterator[Measured]:
    """A step's loss and gradient.

    The worst tensor is held to at least so large a share of all gradients: that of a shift whose
    ReLU is open is nothing but rounding, and the few that are not.
    """
    yield f"{name}-loss", _distance(loss, expected), {"step": 1}
    least = share * sum(norm**2 for _, norm in gradient.values()) ** 0.5
    held = {tensor: [far, max(norm, least)] for tensor, (far, norm) in gradient.items()}
    yield _worst(f"{name}-gradient", held)
    yield f"{name}-gradient-median", _median(gradient), {}
    yield _worst(f"{name}-gradient-last", dict(list(gradient.items())[-2:]))


def _free(
    reference: Mapping[str, Any], facts: Mapping[str, Any], steps: int | None
) -> Iterator[Measured]:
    """Several steps as they are timed; losses count of so many."""
    last = facts["compared"]["last"]
    yield _worst_step("timed-losses", _distances(facts["loss"], reference["loss"])[:steps])
    yield "timed-update", _median(last), {}
    yield _worst("timed-update-worst", last)
    if "again_loss" in facts:
        yield from _again("timed", reference, facts)


def _again(name: str, reference: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Measured]:
    """The new start of the quality scenario."""
    yield f"{name}-again-loss", _distance(facts["again_loss"], reference["again_loss"]), {}
    yield _worst(f"{name}-again", facts["compared"]["again"])


def _distance(mine: float, theirs: float) -> float:
    return abs(mine - theirs) / abs(theirs)


def _distances(mine: list[float], theirs: list[float]) -> list[float]:
    return [_distance(*pair) for pair in zip(mine, theirs, strict=True)]


def _median(compared: Mapping[str, list[float]]) -> float:
    ratios = sorted(map(_ratio, compared.values()), key=_with_nan_last)
    return ratios[len(ratios) // 2]


def _ratio(pair: list[float]) -> float:
    difference, norm = pair
    return difference / norm if norm else (0.0 if not difference else float("inf"))


def furthest(pairs: Iterable[list[float]]) -> list[float]:
    """Of pairs of a difference and an expected norm, that which is furthest; NaN is."""
    return max(pairs, key=lambda pair: _with_nan_last(_ratio(pair)))


def _worst(name: str, compared: Mapping[str, list[float]]) -> Measured:
    ratios = {tensor: _ratio(pair) for tensor, pair in compared.items()}
    tensor = max(ratios, key=lambda each: _with_nan_last(ratios[each]))
    return name, ratios[tensor], {"tensor": tensor}


def _worst_step(name: str, distances: list[float]) -> Measured:
    step = max(range(len(distances)), key=lambda each: _with_nan_last(distances[each]))
    return name, distances[step], {"step": step + 1}


def _with_nan_last(value: float) -> float:
    return value if value == value else math.inf


def _tier(name: str, measured: float, worst: dict[str, Any], tolerance: float) -> dict[str, Any]:
    """A tier by what it measured; the reason says so where that is no number that JSON has."""
    if not math.isfinite(measured):
        numbers = {key for key, value in worst.items() if isinstance(value, float)}
        kept = {key: value for key, value in worst.items() if key not in numbers}
        reason = f"what it measured is not a finite number: {measured}"
        return {"name": name, "passed": False, "reason": reason, "worst": kept}
    return {
        "name": name,
        "passed": passes(measured, tolerance),
        "measured": measured,
        "tolerance": tolerance,
        "worst": worst,
    }


def passes(measured: float, tolerance: float) -> bool:
    """Whether a tier passes; a NaN does not, nor what no distance is."""
    return bool(0 <= measured <= tolerance)


def failed(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The tier that could not be judged: what has its `status` and `reason`."""
    return {"name": name, "passed": False, "reason": f"{facts['status']}: {facts['reason']}"}
