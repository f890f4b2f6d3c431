"""InsightFace's facts and formulas: sizes as published, and momentum of sampled rows by hand."""

import numpy as np
import pytest

from dlperf import workloads
from dlperf.contract.dimension import Dimensions
from dlperf.contract.ownership import Part
from dlperf.workloads.cases import base_case, parse_case
from dlperf.workloads.insightface import facts, proof, sampling
from dlperf.workloads.insightface.backbones import named_layers


def sized(**changes):
    return Dimensions(facts.DIMENSIONS, changes)


@pytest.mark.parametrize(
    ("backbone", "parameters", "gmac", "gflop"),
    [
        ("r50", 43_590_336, 6.309, 37.86),
        ("r100", 65_155_648, 12.090, 72.54),
        ("y1", 1_003_136, 0.2210, 1.326),
    ],
)
def test_a_backbone_has_as_many_parameters_and_multiply_adds_as_the_public_one(
    backbone, parameters, gmac, gflop
):
    asked = sized(backbone=backbone, num_classes=1000)
    centres = 1000 * facts.EMBEDDINGS[backbone]
    assert workloads.parameter_count("insightface", asked) == parameters + centres
    assert facts.multiply_adds(asked) == pytest.approx(gmac * 1e9, rel=3e-4)
    flops = facts.flops_per_sample(asked, "train")
    assert flops - 6 * centres == pytest.approx(gflop * 1e9, rel=3e-4)


@pytest.mark.parametrize("backbone", ["y1", "r50", "r100"])
def test_pages_make_the_layers_that_parameters_are_named_after(backbone):
    def made(*channels, **settings):
        return channels[:2]

    found = list(named_layers(backbone, made, made, made))
    layers = dict.fromkeys(
        name.partition(".")[0] for name in facts.parameters(sized(backbone=backbone))
    )
    assert [*(name for name, _ in found), "output", "centres"] == list(layers)
    # each takes what the one before it gives
    widths = {each.name: each.outer for each in facts.bottlenecks()} if backbone == "y1" else {}
    inputs = 3
    for name, (taken, given) in found:
        assert taken == inputs, name
        inputs = widths.get(name, given)
    assert inputs == (facts.MOBILE_LAST if backbone == "y1" else facts.RESNET_WIDTHS[-1])


def test_long_runs_do_not_depend_on_where_the_centres_are():
    for variant, means in proof.LONG_RUNS.items():
        if variant.endswith("-headmodel"):
            assert means == proof.LONG_RUNS[variant.removesuffix("-headmodel")]


def test_flops_of_partial_fc_are_of_the_centres_that_a_step_samples():
    whole, some = (
        facts.flops_per_sample(sized(num_classes=100_000, head=head), "train")
        for head in ("model", "partial")
    )
    assert whole - some == 6 * 512 * 90_000


def test_a_name_has_what_is_not_standard():
    asked = sized(backbone="y1", loss="cosface", num_classes=10_000, head="partial")
    assert asked.spelled() == ["y1", "cosface", "c10000", "headpartial"]
    assert asked.variant() == "y1-cosface-headpartial"
    assert Dimensions.parse(facts.DIMENSIONS, asked.spelled()) == (asked, "")
    assert Dimensions.parse(facts.DIMENSIONS, ["y1", "cmax"])[1] == "num_classes"


def test_the_speed_up_is_over_one_device_with_the_same_head():
    case = parse_case("insightface/pytorch/train-fp32-1n2d-b16-synthetic-y1-c10000-headmodel")
    assert base_case(case).name == "train-fp32-1n1d-b16-synthetic-y1-c10000-headmodel"


@pytest.mark.parametrize(
    ("devices", "changes", "reason"),
    [
        (8, {"num_classes": 9, "head": "model"}, "the last of 8 devices gets none"),
        (8, {"num_classes": 9}, ""),
        (2, {"num_classes": 9, "head": "partial"}, ""),
        (1, {"image_size": 50}, "no multiple of 16"),
        (1, {"sample_percent": 20}, "is of `head: partial`"),
        (1, {"sample_percent": 20, "head": "partial"}, ""),
    ],
)
def test_what_no_framework_can_do(devices, changes, reason):
    identity = {"workload": "insightface", "nodes": 1, "devices_per_node": devices}
    found = workloads.unsupported({**identity, **sized(**changes)})
    assert reason in found and bool(reason) == bool(found)


def test_the_centres_of_split_heads_are_divided_by_rows_also_where_ranks_do_not_divide_them():
    asked = sized(num_classes=1001, head="model")
    centres = facts.parameters(asked)["centres"]
    assert (centres.axis, centres.over) == (0, "data")
    assert [sampling.rows_of(asked, rank, 2) for rank in (0, 1)] == [(0, 501), (501, 1001)]
    assert sampling.rows_of(asked, 0, 1) == (0, 1001)
    assert Part("centres", 0, ((501, 1001),)).shape(centres.shape) == (500, 512)


def test_a_given_sample_has_the_batchs_identities_and_others_that_change_with_each_step():
    asked, random = sized(num_classes=1001, head="partial"), np.random.RandomState(1)
    for rank in (0, 1):
        labels = [random.randint(0, 1001, 16) for _ in range(3)]
        samples = [
            sampling.sample(asked, 1, step, rank, 2, given) for step, given in enumerate(labels)
        ]
        assert [len(each) for each in samples] == 3 * [50]
        assert all(np.array_equal(each, np.sort(each)) for each in samples)
        assert not list(sampling.problems(asked, rank, 2, labels, samples))


def test_a_given_sample_grows_where_a_rank_has_more_of_the_batchs_identities():
    asked = sized(num_classes=100, head="partial")
    labels = np.arange(0, 60, 2)
    assert len(sampling.sample(asked, 1, 0, 0, 2, labels)) == 25
    found = sampling.sample(asked, 1, 0, 1, 2, labels)
    assert len(found) == 5 and set(range(50, 60, 2)) == set(found)
    assert not list(sampling.problems(asked, 1, 2, [labels], [found]))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda rows: rows[1:], "49 centres, 49 of them different, and not 50"),
        (lambda rows: np.append(rows[:-1], rows[0]), "50 centres, 49 of them different"),
        (lambda rows: np.arange(501, 551), "centres of other ranks"),
        (lambda rows: np.arange(451, 501), "an identity of the batch is missing"),
        (lambda rows: rows, "the centres of the step before"),
    ],
)
def test_a_wrong_sampler_is_told(change, wrong):
    asked, labels = sized(num_classes=1001, head="partial"), np.arange(16)
    right = sampling.sample(asked, 1, 0, 0, 2, labels)
    found = list(sampling.problems(asked, 0, 2, 2 * [labels], [right, change(right)]))
    assert any(wrong in line for line in found), found


@pytest.mark.parametrize("head", ["data", "partial"])
def test_momentum_and_decay_by_hand(head):
    """Three centres in two steps: one sampled twice, one once, one never."""
    centres = {"centres": np.array([[1.0], [2.0], [3.0]])}
    optimizer = proof.Optimizer(centres, sized(head=head))
    for gradient in ([[1.0], [1.0], [0.0]], [[3.0], [0.0], [0.0]]):
        centres = optimizer.update(centres, {"centres": np.array(gradient)}, 0.1)

    def after(weight, gradients):
        velocity = 0.0
        for gradient in gradients:
            velocity = 0.9 * velocity + gradient + 5e-4 * weight
            weight -= 0.1 * velocity
        return weight

    rests = head == "partial"
    wanted = [after(1.0, [1.0, 3.0]), after(2.0, [1.0] if rests else [1.0, 0.0])]
    wanted.append(3.0 if rests else after(3.0, [0.0, 0.0]))
    assert centres["centres"].ravel() == pytest.approx(wanted, rel=1e-12)


def test_certificates_of_a_backbone_without_dropout_have_no_tiers_of_it():
    assert proof.PROOF.places(sized(backbone="y1")) == ()
    assert proof.PROOF.places(sized(backbone="r50")) == ("DROPOUT",)


def test_slopes_of_the_timed_step_are_near_one_and_differ():
    """A value that rounding turns changes little; slopes are shown by the neutral weights."""
    random, dimensions = np.random.RandomState(1), sized(backbone="r50")
    for name, known in facts.parameters(dimensions).items():
        if ".slope" in name:
            slopes = proof.timed(name, known, random)
            assert 0 < np.abs(slopes - 1).max() < 1 / 400
            assert np.ptp(proof.neutral(name, known, random)) > 0.1


def test_neutral_weights_have_images_beyond_the_angle_at_which_a_margin_could_bend():
    """By the shift that all embeddings share, a quarter of the cosines is below cos(pi - 0.5)."""
    random, dimensions = np.random.RandomState(1), sized(backbone="y1", num_classes=1001)
    tensors = facts.parameters(dimensions)
    shift = proof.neutral("output.bias", tensors["output.bias"], random)[128:]
    centres = proof.neutral("centres", tensors["centres"], random)
    # with a deviation of 1 in each direction, as the norm gives
    embeddings = shift + random.standard_normal((50, 128))
    cosines = (embeddings / np.linalg.norm(embeddings, axis=1)[:, None]) @ (
        centres / np.linalg.norm(centres, axis=1)[:, None]
    ).T
    assert 0.2 < (cosines < np.cos(np.pi - 0.5)).mean() < 0.26
    assert np.abs(cosines).max() < 0.99
