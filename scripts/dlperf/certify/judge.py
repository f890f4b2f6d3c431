"""Raw differences -> tiers of a certificate, each passed or not.

Tolerances are by tensor, relative: |found - expected| / |expected|, norms over the tensor. Where
they come from is in docs/certificates.md, with the measurements: right implementations stay well
below, every wrong setting that is tested (tests/certificates/) lies above in at least one tier.
Those of the precision that is timed are the workload's own (proof.py).
"""

from collections.abc import Mapping
from typing import Any

from dlperf import workloads

#: Float64: rounding stays below 1e-9; the reference is stored in float32, which adds 6e-8.
FLOAT64 = {"loss": 1e-9, "gradient": 1e-6, "losses": 1e-7, "update": 1e-6}


def tiers(
    workload: str,
    reference: Mapping[str, Any],
    timed: Mapping[str, Any] | None,
    float64: Mapping[str, Any] | None,
    precision: str,
) -> list[dict[str, Any]]:
    """The tiers of a pair, in their order; one that could not run has `passed` None and says why.

    reference: the manifest's entry for this number of parts. timed, float64: what rank 0 left, or
    {"status", "reason"} of a failure; float64 None where the framework has none, timed None where
    it was left out.
    """
    found = [_shapes(timed or float64 or {})]
    if found[0]["passed"]:
        found += _float64(reference, float64)
        if timed is not None:
            found += _timed(workloads.proof(workload).TIMED[precision], reference, timed)
    return found


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
        return [{"name": f"float64-{name}", "passed": None, "reason": why} for name in FLOAT64]
    if facts["status"] != "ok":
        return [failed("float64-loss", facts)]
    if facts["data_digest"] != reference["data_digest"][0]:
        return [_tier("input", 1, 0, {"found": facts["data_digest"]})]
    losses = [
        abs(mine - theirs) / abs(theirs)
        for mine, theirs in zip(facts["loss"], reference["loss"], strict=True)
    ]
    worst = max(range(len(losses)), key=losses.__getitem__)
    return [
        _tier("float64-loss", losses[0], FLOAT64["loss"], {"step": 1}),
        _worst("float64-gradient", facts["compared"]["first"], FLOAT64["gradient"]),
        _tier("float64-losses", losses[worst], FLOAT64["losses"], {"step": worst + 1}),
        _worst("float64-update", facts["compared"]["last"], FLOAT64["update"]),
    ]


def _timed(
    allowed: Mapping[str, float], reference: Mapping[str, Any], facts: Mapping[str, Any]
) -> list[dict[str, Any]]:
    expected = reference["loss"][0]
    difference = abs(facts["loss"][0] - expected) / abs(expected)
    gradient = facts["compared"]["gradient"]
    ratios = sorted(_ratio(pair) for pair in gradient.values())
    found = [_tier("timed-loss", difference, allowed["loss"], {"step": 1})]
    if "gradient" in allowed:
        found.append(_worst("timed-gradient", gradient, allowed["gradient"]))
        middle = ratios[len(ratios) // 2]
        found.append(_tier("timed-gradient-median", middle, allowed["gradient_median"], {}))
    else:
        last = dict(list(gradient.items())[-2:])
        found.append(_worst("timed-gradient-last", last, allowed["gradient_last"]))
    if "optimizer" in facts["compared"]:
        found.append(_worst("optimizer", facts["compared"]["optimizer"], allowed["optimizer"]))
    return found


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
