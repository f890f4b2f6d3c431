"""The least work of a training step, against numbers counted by hand."""

import pytest
from generated_round import config

from dlperf import plan, workloads
from dlperf.analysis.round import roofline
from dlperf.analysis.round.roofline import Step
from dlperf.contract.traffic import COUNTS, Kernels

IMAGES = {"image_size": 224}
SEQUENCES = {"sequence_length": 128, "clip": 1}


def of_samples(workload: str, dimensions: dict, precision: str, count: str) -> float:
    """Bytes of a sample: without what a step moves of weights and optimiser, whatever its batch."""
    step = roofline.step(workload, dimensions, 1, precision)
    return sum(getattr(each, count) for each in step.kernels[1:])


def of_weights(workload: str, dimensions: dict, precision: str) -> float:
    return roofline.step(workload, dimensions, 1, precision).kernels[0].least


@pytest.mark.parametrize(
    ("workload", "dimensions"),
    [
        ("resnet50", IMAGES),
        ("resnet50", {"image_size": 65}),
        ("bert", SEQUENCES),
        ("bert", {"sequence_length": 512, "clip": 0}),
    ],
)
def test_arithmetic_is_that_of_the_workloads_own_formula(workload, dimensions):
    step = roofline.step(workload, dimensions, 32, "amp")
    expected = 32 * workloads.of(workload).flops_per_sample(dimensions, "train")
    assert step.flops == pytest.approx(expected, rel=1e-12)


def test_weights_are_read_twice_their_gradients_moved_and_the_optimiser_works_in_fp32():
    # fp32: 2 reads, gradient written and read; weight and momentum read and written, 4 bytes each
    assert of_weights("resnet50", IMAGES, "fp32") == 25_557_032 * (4 * 4 + 4 * 4)
    # amp: the same passes and a narrow copy in 2 bytes
    assert of_weights("resnet50", IMAGES, "amp") == 25_557_032 * (2 * 5 + 4 * 4)
    # AdamW has two moments; the clip reads the gradients once more
    assert of_weights("bert", SEQUENCES, "amp") == 110_106_428 * (2 * 6 + 4 * 6)
    assert of_weights("bert", {**SEQUENCES, "clip": 0}, "amp") == 110_106_428 * (2 * 5 + 4 * 6)


def test_each_micro_step_reads_the_weights_and_adds_to_the_gradients():
    # 2 reads and 2 passes over the gradients in each of 3, the clip; the optimiser's once
    step = roofline.step("bert", SEQUENCES, 0, "fp32", 3)
    assert step.bytes("least") == 110_106_428 * 4 * (3 * 4 + 1 + 6)
    section = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [2]},
        "layouts": [{}, {"accumulation": 3}],
    }
    mapping = config(frameworks=["pytorch"], topologies=["1n1d"], workloads={"bert": section})
    one, three = (roofline.of_case(case) for case in plan.expand(plan.load(mapping)))
    assert three.flops == 3 * one.flops
    optimiser = 110_106_428 * 4 * (1 + 6)
    assert three.bytes("eager") - optimiser == 3 * (one.bytes("eager") - optimiser)


def test_the_least_of_resnet50_is_what_its_convolutions_give_five_times():
    def stage(side: int, width: int, blocks: int, before: int) -> int:
        """`before`: the side of what comes in, at which the first convolution still works."""
        first = width * before**2 + width * side**2 + 2 * 4 * width * side**2
        return first + (blocks - 1) * (2 * width + 4 * width) * side**2

    given = 64 * 112**2 + stage(56, 64, 3, 56) + stage(28, 128, 4, 56)
    given += stage(14, 256, 6, 28) + stage(7, 512, 3, 14)
    assert given == 11_113_984  # timm gives 11.1 million
    images = 3 * 224 * 224
    least = 2 * images + 5 * (given + 1000)
    assert of_samples("resnet50", IMAGES, "amp", "least") == 2 * least
    assert of_samples("resnet50", IMAGES, "tf32", "least") == 4 * least


def test_a_bottleneck_by_hand(monkeypatch):
    """One more block of 64 in the first stage: 256 channels in and out, 56 x 56."""
    facts = workloads.facts("resnet50")
    side = 56 * 56
    without = {count: of_samples("resnet50", IMAGES, "fp32", count) for count in COUNTS}
    monkeypatch.setattr(facts, "STAGES", ((64, 4, 1), *facts.STAGES[1:]))
    more = {
        count: of_samples("resnet50", IMAGES, "fp32", count) - without[count] for count in COUNTS
    }
    products = 3 * ((256 + 64) + (64 + 64) + (64 + 256))
    norms, fork = 8 * (64 + 64 + 256), 3 * 256
    relus, total = 5 * (64 + 64 + 256), 3 * 256
    assert more["least"] == 4 * side * 5 * (64 + 64 + 256)
    assert more["eager"] == 4 * side * (products + norms + fork + relus + total)
    assert more["fused"] == 4 * side * (products + norms + fork + 2 * 256)


def test_a_layer_of_bert_by_hand(monkeypatch):
    """In widths of 768 a token: products 48, attention 12, GELU 20, behind dense layers 2 x 15."""
    facts = workloads.facts("bert")
    without = {count: of_samples("bert", SEQUENCES, "amp", count) for count in COUNTS}
    monkeypatch.setattr(facts, "LAYERS", 13)
    more = {count: of_samples("bert", SEQUENCES, "amp", count) - without[count] for count in COUNTS}
    widths = {count: each / (2 * 128 * 768) for count, each in more.items()}
    assert widths == {"least": 50, "fused": 48 + 12 + 20 + 2 * 11, "eager": 48 + 12 + 20 + 2 * 15}


def test_resnet50s_traffic_is_that_of_an_independent_estimate():
    """6,400 and 4,900 images/s eager at 4.3 and 3.0 TB/s, 7,900 and 6,200 fused, had been estimated
    as traffic and arithmetic one after the other: the differences of the times give the bytes."""
    for count, at_43, at_30 in (("eager", 6400, 4900), ("fused", 7900, 6200)):
        estimate = (1 / at_30 - 1 / at_43) / (1 / 3.0e12 - 1 / 4.3e12)
        step = roofline.step("resnet50", IMAGES, 256, "amp")
        assert step.bytes(count) / 256 == pytest.approx(estimate, rel=0.08)


def test_each_kernel_takes_the_longer_of_its_arithmetic_and_its_traffic():
    step = Step((Kernels(1e9, 2e9, 4e9, 6e12), Kernels(0, 1e9, 5e9)))
    found = step.seconds(tflops=2, gigabytes=1)
    assert found == {"arithmetic": 3, "least": 1, "fused": 3 + 1, "eager": 4 + 5}


def test_a_workload_that_is_not_counted_has_no_limit():
    assert roofline.step("gpt", {}, 1, "amp") is None
