"""Raw differences -> tiers of a certificate, each passed or not.

Tolerances are by tensor, relative: |found - expected| / |expected|, norms over the tensor. Where
they come from is in docs/certificates.md, with the measurements: right implementations stay well
below, every wrong setting that is tested (tests/certificates/) lies above in at least one tier.
Those of the precision that is timed are the workload's own (proof.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dlperf import workloads

#: Float64: rounding stays below 1e-9; the reference is stored in float32, which adds 6e-8.
FLOAT64 = {"loss": 1e-9, "gradient": 1e-6, "losses": 1e-7, "update": 1e-6, "outputs": 1e-9}
STATISTICS = 1e-6
#: Of a training to a quality whose steps are in float32, so many losses count: the third one sees
#: the second rate. Behind them its rates, up to twice the usual one, make rounding grow to 5e-3.
FREE_STEPS = 3
#: Of the norm of all gradients, where the timed step has weights of its own: less than that counts
#: as so much.
SHARE = 3e-3


def tiers(
    workload: str,
    manifest: Mapping[str, Any],
    reference: Mapping[str, Any],
    runs: Mapping[str, Mapping[str, Any]],
    precision: str,
) -> list[dict[str, Any]]:
    """The tiers of a pair, in their order; one that could not run has `passed` None and says why.

    manifest: of the reference; reference: its entry for this number of parts. runs: what rank 0
    left, or {"status", "reason"} of a failure, by name. No float64 is there where the framework has
    none, and no timed where it was left out; free: several steps, where float64 shows them not.
    """
    timed, float64, free = (runs.get(name) for name in ("timed", "float64", "free"))
    found = [_shapes(timed or float64 or {})]
    if found[0]["passed"]:
        allowed = workloads.proof(workload).TIMED[_tolerances(precision, timed)]
        found += _float64(reference, float64)
        if timed is not None:
            found += _timed(allowed, manifest, reference, timed)
        if free is not None:
            quality = manifest.get("variant") == "quality"
            found += _free(allowed, reference, free, FREE_STEPS if quality else None)
        if manifest.get("variant") == "quality":
            found += _tested(allowed, reference, runs)
    return found


def _tested(
    allowed: Mapping[str, Any],
    reference: Mapping[str, Any],
    runs: Mapping[str, Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Of a training to a quality: its tests of the model, and its new start."""
    timed, float64, free = (runs.get(name) for name in ("timed", "float64", "free"))
    if float64 and float64["status"] == "ok":
        yield _tier("float64-tested", float64["tested"], FLOAT64["update"], {})
        [again] = _distances([float64["again_loss"]], [reference["again_loss"]])
        yield _tier("float64-again-loss", again, FLOAT64["loss"], {})
        yield _worst("float64-again", float64["compared"]["again"], FLOAT64["gradient"])
    if timed and "tested" in timed:
        yield _tier("timed-tested", timed["tested"], allowed["outputs"], {})
    if free and free["status"] == "ok":
        [again] = _distances([free["again_loss"]], [reference["again_loss"]])
        yield _tier("timed-again-loss", again, allowed["losses"], {})
        yield _worst("timed-again", free["compared"]["again"], allowed["update"])


def of_inference(
    workload: str,
    manifest: Mapping[str, Any],
    runs: Mapping[str, Mapping[str, Any]],
    precision: str,
) -> list[dict[str, Any]]:
    """The tiers of an inference: its outputs in float64 and as they are timed."""
    timed, float64 = runs.get("timed"), runs.get("float64")
    found = [_shapes(timed or float64 or {})]
    if not found[0]["passed"]:
        return found
    if float64 is None:
        why = "the framework has no float64 that serves for this model on this device"
        found.append({"name": "float64-outputs", "passed": None, "reason": why})
    elif float64["status"] != "ok":
        found.append(failed("float64-outputs", float64))
    elif float64["data_digest"] != manifest["data_digest"][0]:
        found.append(_tier("input", 1, 0, {"found": float64["data_digest"]}))
    else:
        found.append(_tier("float64-outputs", float64["distance"], FLOAT64["outputs"], {}))
    if timed is not None:
        allowed = workloads.proof(workload).TIMED[_tolerances(precision, timed)]["outputs"]
        turned = sum(margin > allowed for margin in timed["flipped"])
        found += [
            _tier("timed-outputs", timed["distance"], allowed, {}),
            _tier("timed-largest", turned, 0, {}),
            _tier("timed-permuted", timed["permuted"], allowed, {}),
            _tier("timed-alone", timed["alone"], allowed, {}),
        ]
    return found


def _tolerances(precision: str, timed: Mapping[str, Any] | None) -> str:
    """Which tolerances count: of mixed precision, by the narrow type that the process reports."""
    if not precision.startswith("amp"):
        return precision
    reported = str((timed or {}).get("parity", {}).get("compute_dtype", ""))
    return "amp_fp16" if "float16" in reported and "bfloat16" not in reported else "amp"


def long_run(workload: str, variant: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Mean loss of a run of LONG_STEPS: within the spread of fp32 runs of other seeds.

    Measured is the distance from the middle of the spread, over half of its width.
    """
    if facts["status"] != "ok":
        return failed("long-run", facts)
    seeds = workloads.proof(workload).LONG_RUNS.get(variant)
    if not seeds:
        reason = "proof.py has no LONG_RUNS of it (certify.reference --long-runs prints them)"
        return failed("long-run", {"status": "not measured", "reason": reason})
    low, high = min(seeds), max(seeds)
    mean = sum(facts["loss"]) / len(facts["loss"])
    distance = abs(mean - (low + high) / 2) / ((high - low) / 2)
    return _tier("long-run", distance, 1.0, {"mean_loss": mean, "low": low, "high": high})


def _shapes(facts: Mapping[str, Any]) -> dict[str, Any]:
    if facts["status"] != "ok":
        return failed("shapes", facts)
    wrong = facts["shapes"]
    worst = {"tensor": wrong[0][0], "expected": wrong[0][1], "found": wrong[0][2]} if wrong else {}
    return _tier("shapes", len(wrong), 0, worst)


def _float64(reference: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    if facts is None:
        why = "the framework has no float64 that serves for this model on this device"
        of_training = [name for name in FLOAT64 if name != "outputs"]
        return [{"name": f"float64-{name}", "passed": None, "reason": why} for name in of_training]
    if facts["status"] != "ok":
        return [failed("float64-loss", facts)]
    if facts["data_digest"] != reference["data_digest"][0]:
        return [_tier("input", 1, 0, {"found": facts["data_digest"]})]
    losses = _distances(facts["loss"], reference["loss"])
    worst = max(range(len(losses)), key=losses.__getitem__)
    found = [
        _tier("float64-loss", losses[0], FLOAT64["loss"], {"step": 1}),
        _worst("float64-gradient", facts["compared"]["first"], FLOAT64["gradient"]),
        _tier("float64-losses", losses[worst], FLOAT64["losses"], {"step": worst + 1}),
        _worst("float64-update", facts["compared"]["last"], FLOAT64["update"]),
    ]
    if "statistics" in facts["compared"]:
        found.append(_worst("float64-statistics", facts["compared"]["statistics"], STATISTICS))
    return found


def _timed(
    allowed: Mapping[str, Any],
    manifest: Mapping[str, Any],
    reference: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> list[dict[str, Any]]:
    compared = facts["compared"]
    if "parts" in facts:  # other ones than the layout's
        reference = manifest["parts"][str(facts["parts"])]
    own = "timed_loss" in reference  # of other weights
    expected = reference["timed_loss"] if own else reference["loss"][0]
    gradient, share = compared["gradient"], SHARE if own else 0.0
    found = _step("timed", allowed, facts["loss"][0], expected, gradient, share)
    if "least_error" in allowed:
        # In half precision: less of an error than its rounding makes is another precision.
        missing = allowed["least_error"] / max(_median(gradient), 1e-300)
        found.append(_tier("timed-precision", missing, 1.0, {}))
    if "statistics" in compared:
        found.append(_worst("timed-statistics", compared["statistics"], allowed["statistics"]))
    if "neutral" in compared:
        of_neutral, loss = facts["neutral_loss"][0], reference["loss"][0]
        neutral = compared["neutral"]
        found += _step("timed-neutral", allowed["neutral"], of_neutral, loss, neutral)
    for place, losses in facts.get("dropped", {}).items():
        # the middle one: in one in some dozens a single element is kept, and is enormous
        distances = sorted(_distances(losses, manifest["dropped"][place]))
        middle = distances[len(distances) // 2]
        name = "timed-" + place.lower().replace("_", "-")
        found.append(_tier(name, middle, allowed["dropout"], {}))
    if "optimizer" in compared:
        found.append(_worst("optimizer", compared["optimizer"], allowed["optimizer"]))
    return found


def _step(
    name: str,
    allowed: Mapping[str, float],
    loss: float,
    expected: float,
    gradient: Mapping[str, list[float]],
    share: float = 0.0,
) -> list[dict[str, Any]]:
    """A step's loss and gradient, as far as they are held to something.

    The worst tensor is held to at least so large a share of all gradients: that of a shift whose
    ReLU is open is nothing but rounding, and the few that are not.
    """
    found = [_tier(f"{name}-loss", *_distances([loss], [expected]), allowed["loss"], {"step": 1})]
    if "gradient" in allowed:
        least = share * sum(norm**2 for _, norm in gradient.values()) ** 0.5
        held = {tensor: [far, max(norm, least)] for tensor, (far, norm) in gradient.items()}
        found.append(_worst(f"{name}-gradient", held, allowed["gradient"]))
        middle = _median(gradient)
        found.append(_tier(f"{name}-gradient-median", middle, allowed["gradient_median"], {}))
    if "gradient_last" in allowed:
        last = dict(list(gradient.items())[-2:])
        found.append(_worst(f"{name}-gradient-last", last, allowed["gradient_last"]))
    return found


def _free(
    allowed: Mapping[str, float],
    reference: Mapping[str, Any],
    facts: Mapping[str, Any],
    steps: int | None = None,
) -> list[dict[str, Any]]:
    """Several steps as they are timed; losses count of so many."""
    if facts["status"] != "ok":
        return [failed("timed-losses", facts)]
    losses = _distances(facts["loss"], reference["loss"])[:steps]
    worst = max(range(len(losses)), key=losses.__getitem__)
    last = facts["compared"]["last"]
    found = [
        _tier("timed-losses", losses[worst], allowed["losses"], {"step": worst + 1}),
        _tier("timed-update", _median(last), allowed["update"], {}),
    ]
    if "update_worst" in allowed:
        found.append(_worst("timed-update-worst", last, allowed["update_worst"]))
    return found


def _distances(mine: list[float], theirs: list[float]) -> list[float]:
    return [abs(a - b) / abs(b) for a, b in zip(mine, theirs, strict=True)]


def _median(compared: Mapping[str, list[float]]) -> float:
    ratios = sorted(map(_ratio, compared.values()))
    return ratios[len(ratios) // 2]


def _ratio(pair: list[float]) -> float:
    difference, norm = pair
    return difference / norm if norm else (0.0 if not difference else float("inf"))


def _worst(name: str, compared: Mapping[str, list[float]], tolerance: float) -> dict[str, Any]:
    ratios = {tensor: _ratio(pair) for tensor, pair in compared.items()}
    tensor = max(ratios, key=lambda each: ratios[each] if ratios[each] == ratios[each] else 1e300)
    return _tier(name, ratios[tensor], tolerance, {"tensor": tensor})


def _tier(name: str, measured: float, tolerance: float, worst: dict[str, Any]) -> dict[str, Any]:
    passed = bool(measured <= tolerance)  # a NaN does not pass
    return {
        "name": name,
        "passed": passed,
        "measured": measured,
        "tolerance": tolerance,
        "worst": worst,
    }


def failed(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The tier that could not be judged: what has its `status` and `reason`."""
    return {"name": name, "passed": False, "reason": f"{facts['status']}: {facts['reason']}"}
