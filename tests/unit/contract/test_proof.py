"""A proof says what it holds a tier to, or why there is none; nothing is dropped in silence."""

import dataclasses

import pytest

from dlperf import frameworks, workloads
from dlperf.certify import required
from dlperf.certify.required import Subject
from dlperf.contract.proof import Float64, Inapplicable, Proof, Step, Tolerances, applies, number

NONE = Inapplicable("there is no such thing")
STEP = Step(loss=1e-5, gradient=0.1, gradient_median=NONE, gradient_last=NONE)
ALL = {field.name: 0.5 for field in dataclasses.fields(Tolerances)} | {
    "step": STEP,
    "neutral": NONE,
}


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Tolerances)])
def test_a_tolerance_that_is_missing_misspelt_or_no_number_is_an_error(field):
    Tolerances(**ALL)
    without = {name: value for name, value in ALL.items() if name != field}
    with pytest.raises(TypeError, match=field):
        Tolerances(**without)
    with pytest.raises(TypeError, match=f"{field}s_"):
        Tolerances(**without, **{f"{field}s_": 0.5})
    for wrong in (None, "0.5", {"loss": 1e-5}):
        with pytest.raises(TypeError, match=f"Tolerances.{field}.* is neither a number nor"):
            Tolerances(**{**ALL, field: wrong})


def test_a_step_is_held_to_numbers_or_says_why_not():
    with pytest.raises(TypeError, match="Step.gradient: None is neither"):
        dataclasses.replace(STEP, gradient=None)
    with pytest.raises(TypeError, match="gradient_medain"):
        Step(loss=1e-5, gradient=0.1, gradient_medain=0.1, gradient_last=NONE)


def test_a_tier_that_cannot_apply_is_never_one_without_a_tolerance():
    assert applies(0.0) and number(0.0) == 0.0 and not applies(NONE)
    with pytest.raises(ValueError, match="cannot apply: there is no such thing"):
        number(NONE)


@pytest.mark.parametrize("name", ["dropout", "float_64", "DROPOUTS", "timed_rank"])
def test_a_misspelt_field_of_a_proof_is_an_error_and_no_tier_less(name):
    own = workloads.proof("bert")
    fields = {field.name: getattr(own, field.name) for field in dataclasses.fields(Proof)}
    with pytest.raises(TypeError, match=name):
        Proof(**fields, **{name: ("DROPOUT",)})
    with pytest.raises(TypeError, match="gradients"):
        Float64(gradients=1e-6)


@pytest.mark.parametrize("workload", workloads.NAMES)
def test_a_proof_names_constants_that_the_facts_have(workload):
    """What certificates change, and places of dropout: else they would change nothing."""
    own, facts = workloads.proof(workload), vars(workloads.facts(workload))
    for name in {*own.settings, *own.gradient_settings, *own.dropouts}:
        assert name in facts, name
    rates = {name for name in facts if name.endswith("DROPOUT")}
    assert set(own.dropouts) == rates, "each place of dropout is shown"


@pytest.mark.parametrize("precision", ["fp32", "tf32", "amp", "amp_fp16"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("workload", workloads.NAMES)
def test_every_tier_that_is_asked_for_has_a_number(workload, device, precision):
    for framework in frameworks.NAMES:
        if not workloads.implements(workload, framework):
            continue
        for layout in ("1", "dp2"):
            compiler = frameworks.of(framework).default_compiler[device]
            subject = Subject(workload, framework, device, precision, compiler, "", layout)
            for dtype in ("float32", "bfloat16", "float16"):
                for tier in required.tiers(subject, dtype):
                    assert tier.tolerance is None or tier.tolerance >= 0, (framework, tier)
