"""Whether a certificate says what it may say: tier by tier, against what is required of it.

In: a certificate's document that fits the schema. Out: what is wrong with it, a line each. Whether
a tier passed is computed again from what it measured; tolerances and tiers are those of this very
code (required.py), so an edited certificate contradicts itself or the code.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from dlperf import frameworks
from dlperf.certify import judge, required
from dlperf.certify.required import Subject, Tier
from dlperf.measure import code

#: Tiers that stand for others, and never pass: no reference; another input than the reference's.
REFERENCE, INPUT = "reference", "input"


def problems(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with a certificate's tiers: 'tier <name>: what is there, what should be'."""
    subject = Subject.of(document)
    dtype = judge.compute_dtype(document)
    wanted = required.tiers(subject, dtype)
    found = [*_dtype(subject, document, dtype), *_names(document["tiers"], wanted)]
    by_name = {tier.name: tier for tier in wanted}
    for tier in document["tiers"]:
        found += _tier(tier, by_name.get(tier["name"]), subject)
    passed = all(tier["passed"] is not False for tier in document["tiers"])
    if document["passed"] != passed:
        found.append(f"passed is {_word(document['passed'])}, but its tiers say otherwise")
    if found and document["provenance"]["code_sha256"] != _code(subject):
        commit = document["provenance"]["git_commit"]
        return [
            "was made with other code than this (another code_sha256), which may require other "
            f"tiers: make it again, or check out its commit, {commit} ({found[0]})"
        ]
    return found


def _code(subject: Subject) -> str:
    return code.sha256(code.of_implementation(subject.workload, subject.framework))


def _dtype(subject: Subject, document: Mapping[str, Any], dtype: str) -> Iterator[str]:
    """Mixed precision is held to the tolerances of its narrow type: so that has to be one."""
    if not subject.precision.startswith("amp") or not document["passed"]:
        return
    asked = frameworks.ASKED.get(subject.precision)
    allowed = (asked,) if asked else frameworks.of(subject.framework).half[subject.device]
    narrow = "bfloat16" if "bfloat16" in dtype else "float16"
    if narrow not in dtype or narrow not in allowed:
        yield (
            f"parity.compute_dtype is {dtype!r}, but {subject.precision} is computed in "
            + " or ".join(allowed)
        )


def _names(there: list[Mapping[str, Any]], wanted: tuple[Tier, ...]) -> Iterator[str]:
    """Which tiers are there: every one that is required, once, in their order, and no other."""
    names = [tier["name"] for tier in there]
    if names == [REFERENCE]:
        return
    known = [tier.name for tier in wanted]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"tier {name}: stands {names.count(name)} times; it has to be there once"
        if name not in known and name != INPUT:
            meant = difflib.get_close_matches(name, known, 1)
            like = f"; did you mean {meant[0]}?" if meant else ""
            yield f"tier {name}: is no tier of this certificate{like}"
    explained = _explained(there, wanted)
    for tier in wanted:
        if tier.name not in names and tier.run not in explained:
            yield f"tier {tier.name}: is missing; it has to be there, {_asked(tier)}"
    rest = [name for name in dict.fromkeys(names) if name in known]
    ordered = [name for name in known if name in names]
    if rest != ordered:
        name, should = next((a, b) for a, b in zip(rest, ordered, strict=True) if a != b)
        yield f"tier {name}: stands where {should} has to stand"


def _explained(there: list[Mapping[str, Any]], wanted: tuple[Tier, ...]) -> set[str]:
    """The runs whose tiers may be missing, because a tier that failed says why."""
    could_not_run = {
        tier["name"] for tier in there if tier["passed"] is False and "measured" not in tier
    }
    found = {tier.run for tier in wanted if tier.name in could_not_run}
    if any(tier["name"] == "shapes" and tier["passed"] is False for tier in there):
        found |= {tier.run for tier in wanted}
    if any(tier["name"] == INPUT for tier in there):
        found.add("float64")
    return found


def _tier(tier: Mapping[str, Any], wanted: Tier | None, subject: Subject) -> Iterator[str]:
    """Whether a tier passed what it has to pass."""
    name, passed = f"tier {tier['name']}", tier["passed"]
    if tier["name"] in (REFERENCE, INPUT):
        if passed is not False:
            yield f"{name}: passed is {_word(passed)}, but it is there only where it failed"
        return
    if wanted is None:
        return
    if wanted.tolerance is None:
        if passed is not None or "measured" in tier:
            yield (
                f"{name}: passed is {_word(passed)}, but it is not applicable (null): "
                f"{subject.framework} has no float64 for it on {subject.device}"
            )
        return
    if "measured" not in tier:
        if passed is not False:
            yield f"{name}: passed is {_word(passed)} and nothing is measured; {_asked(wanted)}"
        return
    measured, tolerance = tier["measured"], tier.get("tolerance")
    if tolerance != wanted.tolerance:
        yield f"{name}: tolerance is {tolerance!r}; it has to be {wanted.tolerance!r}"
    if measured < 0:
        yield f"{name}: measured is {measured!r}; a distance is never negative"
    if passed is not judge.passes(measured, wanted.tolerance):
        is_within = "is within" if judge.passes(measured, wanted.tolerance) else "exceeds"
        yield (
            f"{name}: passed is {_word(passed)}, but measured, {measured!r}, {is_within} "
            f"its tolerance of {wanted.tolerance!r}"
        )


def _asked(tier: Tier) -> str:
    if tier.tolerance is None:
        return "with passed null and why it is not applicable"
    return f"measured, with a tolerance of {tier.tolerance!r}"


def _word(passed: bool | None) -> str:
    return {True: "true", False: "false", None: "null"}[passed]
