"""Raw differences -> tiers of a certificate, each passed or not.

Tolerances are by tensor, relative: |found - expected| / |expected|, norms over the tensor. Where
they come from is in docs/certificates.md, with the measurements: right implementations stay well
below, every wrong setting that is tested (tests/certificates/) lies above in at least one tier.
"""

from collections.abc import Mapping
from typing import Any

#: Float64: rounding stays below 1e-9; the reference is stored in float32, which adds 6e-8.
FLOAT64 = {"loss": 1e-9, "gradient": 1e-6, "losses": 1e-7, "update": 1e-6}
#: The precision that is timed: one step, and the optimiser alone. ResNet-50's gradients in bfloat16
#: differ in all but the last layer by as much as they are long, in every framework: only the last
#: layer's are held to anything. BERT's clip divides by a norm over 110 million float32 gradients,
#: which PyTorch on a CPU sums with an error of up to 3e-4.
TIMED = {
    "resnet50": {
        "fp32": {"loss": 1e-5, "gradient": 0.2, "gradient_median": 0.05, "optimizer": 1e-5},
        "amp": {"loss": 1e-2, "gradient_last": 0.5, "optimizer": 1e-2},
    },
    "bert": {
        "fp32": {"loss": 1e-5, "gradient": 2e-3, "gradient_median": 1e-3, "optimizer": 1e-3},
        "amp": {"loss": 3e-3, "gradient": 0.1, "gradient_median": 0.06, "optimizer": 1e-2},
    },
}
#: Mean losses of the reference's float32 runs of LONG_STEPS steps on batches of five seeds, by
#: workload and variant: PyTorch 2.13 on a CPU, by `dlperf.certify.reference --long-runs`.
LONG_RUNS = {
    "resnet50": {"": (5.7664, 5.9541, 5.8063, 5.9833, 5.5383)},
    "bert": {
        "": (10.5647, 10.3133, 11.2092, 10.3937, 10.4697),
        "clip0": (10.5633, 10.3335, 11.2241, 10.4071, 10.4196),
    },
}


def tiers(
    workload: str,
    reference: Mapping[str, Any],
    timed: Mapping[str, Any] | None,
    float64: Mapping[str, Any] | None,
    precision: str,
) -> list[dict[str, Any]]:
    """The tiers of a pair, in their order; one that could not run has `passed` None and says why.

    reference: the manifest's entry for this number of ranks. timed, float64: what rank 0 left, or
    {"status", "reason"} of a failure; float64 None where the framework has none, timed None where
    it was left out.
    """
    found = [_shapes(timed or float64 or {})]
    if found[0]["passed"]:
        found += _float64(reference, float64)
        if timed is not None:
            found += _timed(TIMED[workload][precision], reference, timed)
    return found


def long_run(workload: str, variant: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Mean loss of a run of LONG_STEPS: within the spread of fp32 runs of other seeds.

    Measured is the distance from the middle of the spread, over half of its width.
    """
    if facts["status"] != "ok":
        return failed("long-run", facts)
    seeds = LONG_RUNS.get(workload, {}).get(variant)
    if not seeds:
        reason = "no LONG_RUNS in certify/judge.py (certify.reference --long-runs prints them)"
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
