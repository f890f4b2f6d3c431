"""What a certificate has to have: the runs that prove it, its tiers and their tolerances.

In: what a certificate is of. Out: the runs, which __main__.py starts, and the tiers, which judge.py
measures and check.py looks for: none of them decides that by itself, so they cannot differ.
Tolerances of the precision that is timed are the workload's own (proof.py); the others, and where
all of them come from, are in docs/certificates.md.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dlperf import frameworks, workloads
from dlperf.contract import sampled
from dlperf.contract.layout import Proved
from dlperf.contract.proof import Float64, Inapplicable, Step, Tolerances, applies, number

#: How many deviations of chance the losses of dropout's random numbers may be off. By chance alone
#: one in two million is, of the largest of 32 one in 100,000.
DEVIATIONS = 5.0
NO_FLOAT64 = "the framework has no float64 that serves for this model on this device"

#: A run: its precision, its compiler and its task (certify/rank.py).
Run = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """What a certificate is of; its path spells it."""

    workload: str
    framework: str
    device: str
    precision: str
    compiler: str
    variant: str
    layout: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Subject":
        """The subject that a certificate's document states."""
        return cls(*(document[field.name] for field in fields(cls)))


@dataclass(frozen=True)
class Tier:
    """A tier that has to be there: its name, what it may measure at most, the run that shows it.

    tolerance is None where the framework has no float64: then the tier is not applicable.
    """

    name: str
    tolerance: float | None
    run: str


def float64_compiler(subject: Subject) -> str | None:
    """The compiler of the float64 run: the timed one where float64 has it; None without float64."""
    if subject.device != "cpu":
        return None
    there = frameworks.of(subject.framework).float64_compilers
    return subject.compiler if subject.compiler in there else next(iter(there), None)


def runs(subject: Subject) -> dict[str, Run]:
    """The runs that prove a subject by their names, the longest first; not how many steps."""
    float64, timed = float64_compiler(subject), (subject.precision, subject.compiler)
    scenario = workloads.scenario_of(subject.variant)
    found: dict[str, Run] = {}
    task: dict[str, Any] = {"kind": "outputs"}
    if scenario == "infer":
        if float64:
            found["float64"] = ("fp64", float64, task)
        return {**found, "timed": (*timed, task)}
    framework, proof = frameworks.of(subject.framework), workloads.proof(subject.workload)
    whole = subject.layout == "1"  # of others, what matters is how they exchange or accumulate
    alone = whole and scenario == "train"  # the quality scenario has the other certificate, too
    if alone and timed != ("fp32", "none"):
        found["long"] = (*timed, {"kind": "long"})
    if float64:
        found["float64"] = ("fp64", float64, {"kind": "steps"})
    optimizer = alone and framework.optimizer_alone
    task = {"kind": "gradient", "optimizer": optimizer, "dropout": alone}
    found["timed"] = (*timed, {**task, "neutral": whole and not float64})
    if scenario == "train" and sampled.samples(proof, _dimensions(subject)):
        found["timed"][-1]["sampler"] = True
    if subject.layout == "dp2" and proof.timed_ranks and subject.device == "cpu":
        found["timed"][-1]["ranks"] = proof.timed_ranks
    if whole:
        shows = scenario == "quality" or applies(proof.tolerances["fp32"].update_worst)
        free = shows and not float64
    else:
        free = not (float64 and framework.float64_exchange)
    if free:
        found["free"] = (*timed, {"kind": "steps"})
    return found


def _dimensions(subject: Subject) -> Mapping[str, Any]:
    """Those of a certificate."""
    return workloads.certified(subject.workload, subject.variant)


def tolerances(workload: str, precision: str, compute_dtype: str) -> Tolerances:
    """The workload's tolerances; of mixed precision by the narrow type that the process reports."""
    return workloads.proof(workload).tolerances[kind(precision, compute_dtype)]


def kind(precision: str, compute_dtype: str) -> str:
    """Which of a proof's tolerances a precision is held to."""
    if not precision.startswith("amp"):
        return precision
    narrow = "float16" in compute_dtype and "bfloat16" not in compute_dtype
    return "amp_fp16" if narrow else "amp"


def tiers(
    subject: Subject, compute_dtype: str = "", without: Collection[str] = ()
) -> tuple[Tier, ...]:
    """The tiers of a whole certificate, in their order.

    compute_dtype: what the timed process reports. without: runs that somebody left out.
    """
    started = {name: run for name, run in runs(subject).items() if name not in without}
    allowed = tolerances(subject.workload, subject.precision, compute_dtype)
    float64 = workloads.proof(subject.workload).float64
    found = [Tier("shapes", 0, "timed" if "timed" in started else "float64")]
    if workloads.scenario_of(subject.variant) == "infer":
        return (*found, *_of_inference(allowed, float64, started))
    statistics = bool(workloads.of(subject.workload).statistics)
    found += _of_float64(float64, started, statistics)
    if "timed" in started:
        found += _of_timed(subject, allowed, started["timed"][-1], statistics)
    if "free" in started:
        found += _of_free(allowed)
    if workloads.scenario_of(subject.variant) == "quality":
        found += _of_quality(subject, allowed, float64, started)
    if "long" in started:
        found.append(Tier("long-run", 1.0, "long"))
    return tuple(found)


def _of_inference(
    allowed: Tolerances, float64: Float64, started: Mapping[str, Run]
) -> Iterator[Tier]:
    yield Tier("float64-outputs", float64.outputs if "float64" in started else None, "float64")
    if "timed" in started:
        yield Tier("timed-outputs", number(allowed.outputs), "timed")
        yield Tier("timed-largest", 0, "timed")
        yield Tier("timed-permuted", number(allowed.outputs), "timed")
        yield Tier("timed-alone", number(allowed.outputs), "timed")


def _of_float64(float64: Float64, started: Mapping[str, Run], statistics: bool) -> Iterator[Tier]:
    there = "float64" in started
    for name in ("loss", "gradient", "losses", "update"):
        yield Tier(f"float64-{name}", getattr(float64, name) if there else None, "float64")
    if there and statistics:
        yield Tier("float64-statistics", float64.statistics, "float64")


def _of_timed(
    subject: Subject, allowed: Tolerances, task: Mapping[str, Any], statistics: bool
) -> Iterator[Tier]:
    proof = workloads.proof(subject.workload)
    yield from _of_step("timed", allowed.step)
    if applies(allowed.least_error):
        yield Tier("timed-precision", 1.0, "timed")
    if statistics:
        yield Tier("timed-statistics", number(allowed.statistics), "timed")
    if task["neutral"] and proof.timed:  # the timed step has other weights
        yield from _of_step("timed-neutral", allowed.neutral)
    if task["dropout"]:
        places = proof.places(_dimensions(subject))
        for place in places:
            yield Tier(of_dropout(place), number(allowed.dropout), "timed")
        if places:
            for what in ("mean", "deviation", "repeats"):
                yield Tier(f"dropout-{what}", DEVIATIONS, "timed")
    if task.get("sampler"):
        yield Tier("sampler", 0, "timed")
    if task["optimizer"]:
        yield Tier("optimizer", number(allowed.optimizer), "timed")


def of_dropout(place: str) -> str:
    """The name of the tier of a place of dropout."""
    return "timed-" + place.lower().replace("_", "-")


def _of_step(name: str, allowed: Step | Inapplicable) -> Iterator[Tier]:
    """A step's loss and gradient, as far as they are held to something."""
    if isinstance(allowed, Inapplicable):
        raise ValueError(f"{name}: a step is asked for that cannot apply: {allowed}")
    yield Tier(f"{name}-loss", number(allowed.loss), "timed")
    for field in ("gradient", "gradient_median", "gradient_last"):
        if applies(tolerance := getattr(allowed, field)):
            yield Tier(f"{name}-{field.replace('_', '-')}", number(tolerance), "timed")


def _of_free(allowed: Tolerances) -> Iterator[Tier]:
    for field in ("losses", "update", "update_worst"):
        if applies(tolerance := getattr(allowed, field)):
            yield Tier(f"timed-{field.replace('_', '-')}", number(tolerance), "free")


def _of_quality(
    subject: Subject,
    allowed: Tolerances,
    float64: Float64,
    started: Mapping[str, Run],
) -> Iterator[Tier]:
    """The quality scenario: its tests of the model, and its new start."""
    if "float64" in started:
        yield Tier("float64-tested", float64.update, "float64")
        yield Tier("float64-again-loss", float64.loss, "float64")
        yield Tier("float64-again", float64.gradient, "float64")
    # of one part: the reference has the test of its batch alone
    if "timed" in started and Proved.parse(subject.layout).parts == 1:
        yield Tier("timed-tested", number(allowed.outputs), "timed")
    if "free" in started:
        yield Tier("timed-again-loss", number(allowed.losses), "free")
        yield Tier("timed-again", number(allowed.update), "free")
