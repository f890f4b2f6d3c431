"""From differences to tiers: what passes, what does not, what could not run."""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import workloads
from dlperf.certify import SCATTERED, judge, long_run
from dlperf.certify.__main__ import Grid, of_all_ranks
from dlperf.certify.rank import OtherModel, compare, wrong_shapes
from dlperf.certify.reference import (
    given_gradients,
    neutral,
    save,
    split,
    whole,
)
from dlperf.certify.required import Subject
from dlperf.contract import layouts, tensor
from dlperf.contract.dimension import Dimensions
from dlperf.contract.layout import Layout
from dlperf.contract.mesh import Mesh
from dlperf.contract.tensor import shapes
from dlperf.measure.record import file_sha256
from dlperf.workloads.bert import facts as bert
from dlperf.workloads.encoders import adamw
from dlperf.workloads.resnet50 import facts

#: Losses of dropout at its own rates, of two batches in turn.
DRAWN = {
    "batch": [0, 1] * (SCATTERED // 2),
    "mean": [4.0, 5.0] * (SCATTERED // 2),
    "deviation": [0.02, 0.04] * (SCATTERED // 2),
    "draws": 96,
    "kurtosis": 3.0,
}
MANIFEST = {
    "variant": "",
    "scattered": DRAWN,
    "dropped": {"DROPOUT": [4.0, 4.1, 4.2], "ATTENTION_DROPOUT": [5.0, 5.1, 5.2]},
}


def by_chance(seed=1, share=1.0):
    """Losses as honest dropout gives them; a share of their deviation."""
    dice = random.Random(seed)
    pairs = zip(DRAWN["mean"], DRAWN["deviation"], strict=True)
    return [dice.gauss(mean, share * deviation) for mean, deviation in pairs]


REFERENCE = {"loss": [7.0, 6.9, 6.8, 6.7, 6.6], "data_digest": ["d0"]}


def left(**changes):
    """What a rank leaves that does just what the reference does."""
    exact = {"conv1.weight": [0.0, 2.0], "fc.bias": [0.0, 1.0]}
    facts = {
        "status": "ok",
        "shapes": [],
        "loss": list(REFERENCE["loss"]),
        "data_digest": "d0",
        "compared": {
            name: dict(exact)
            for name in ("gradient", "first", "last", "again", "optimizer", "statistics", "neutral")
        },
        "neutral_loss": [REFERENCE["loss"][0]],
        "dropped": {place: list(losses) for place, losses in MANIFEST["dropped"].items()},
        "scattered": by_chance(),
        "tested": 0.0,
    }
    return {**facts, **changes}


def subject(**changes):
    """ResNet-50 in fp32, in a framework that has float64 (or that has none)."""
    own = {"workload": "resnet50", "framework": "pytorch", "device": "cpu", "precision": "fp32"}
    return Subject(**{**own, "compiler": "none", "variant": "", "layout": "1", **changes})


def judged(timed=None, float64=None, free=None, manifest=MANIFEST, **changes):
    """Tiers of ResNet-50, by name; of runs that do what the reference does, but for those given."""
    reference = {**REFERENCE, **changes}
    runs = {"timed": timed, "float64": float64, "free": free}
    runs = {name: each for name, each in runs.items() if each is not None}
    framework = "mindspore" if float64 is None else "pytorch"
    layout = "dp2" if free and manifest["variant"] != "quality" else "1"
    asked = subject(framework=framework, layout=layout, variant=manifest["variant"])
    return judge.tiers(asked, manifest, reference, runs)


def by_name(tiers):
    return {tier["name"]: tier for tier in tiers}


def test_equal_work_passes_every_tier():
    tiers = judged(left(), left())
    assert all(tier["passed"] for tier in tiers)


def test_another_shape_fails_first_and_names_the_tensor():
    wrong = left(shapes=[["fc.bias", (1000,), None]])
    (tier,) = judged(wrong, left())
    assert tier["passed"] is False
    assert tier["worst"]["tensor"] == "fc.bias"


def test_the_worst_tensor_is_named():
    float64 = left()
    float64["compared"]["first"]["fc.bias"] = [1e-3, 1.0]
    tier = by_name(judged(left(), float64))["float64-gradient"]
    assert tier["passed"] is False
    assert tier["worst"]["tensor"] == "fc.bias"
    assert tier["measured"] == pytest.approx(1e-3)


def test_a_number_that_is_none_does_not_pass():
    timed = left()
    timed["compared"]["gradient"]["conv1.weight"] = [math.nan, 2.0]
    tier = by_name(judged(timed, left()))["timed-gradient"]
    assert tier["passed"] is False and "measured" not in tier, "JSON has no NaN"
    assert tier["worst"]["tensor"] == "conv1.weight" and "nan" in tier["reason"]


def test_what_is_expected_to_stay_must_stay():
    timed, float64 = left(), left()
    timed["compared"]["gradient"]["fc.bias"] = [1e-3, 0.0]
    float64["compared"]["first"]["fc.bias"] = [1e-9, 0.0]
    tiers = by_name(judged(timed, float64))
    assert not tiers["timed-gradient"]["passed"]
    assert not tiers["float64-gradient"]["passed"]


def test_a_gradient_that_is_rounding_is_held_to_a_share_of_the_whole():
    timed = left()
    timed["compared"]["gradient"]["bn1.bias"] = [1e-8, 1e-12]
    own = {"timed_loss": timed["loss"][0]}
    assert by_name(judged(timed, left(), **own))["timed-gradient"]["passed"]
    assert not by_name(judged(timed, left()))["timed-gradient"]["passed"], "of the neutral weights"
    timed["compared"]["gradient"]["bn1.bias"] = [1e-3, 1e-12]
    assert not by_name(judged(timed, left(), **own))["timed-gradient"]["passed"]


def test_the_timed_step_has_a_loss_of_its_own_where_its_weights_are():
    assert not by_name(judged(left(), left(), timed_loss=5.0))["timed-loss"]["passed"]
    assert by_name(judged(left(loss=[5.0]), left(), timed_loss=5.0))["timed-loss"]["passed"]


def test_of_a_place_of_dropout_the_middle_of_the_losses_counts():
    for losses, passes in (
        ([5.0, 5.1, 9.9], True),  # in the third an element was kept
        ([5.0, math.nan, 5.2], True),  # in the second it was infinite in float16
        ([math.nan, math.nan, 5.2], False),
        ([5.01, 5.12, 5.2], False),  # a place of dropout is missing
    ):
        dropped = {**MANIFEST["dropped"], "ATTENTION_DROPOUT": losses}
        runs = {"timed": left(dropped=dropped), "float64": left()}
        found = by_name(judge.tiers(subject(workload="bert"), MANIFEST, REFERENCE, runs))
        assert found["timed-attention-dropout"]["passed"] is passes


def of_dropout(losses):
    """Tiers of BERT, whose dropout gave these losses."""
    runs = {"timed": left(scattered=losses), "float64": left()}
    return by_name(judge.tiers(subject(workload="bert"), MANIFEST, REFERENCE, runs))


@pytest.mark.parametrize("seed", range(40))
def test_random_numbers_of_dropout_pass_by_chance(seed):
    tiers = of_dropout(by_chance(seed))
    assert all(tiers[f"dropout-{each}"]["passed"] for each in ("mean", "deviation", "repeats"))


@pytest.mark.parametrize(
    "losses, tier",
    [
        (by_chance()[:2] * 32, "dropout-repeats"),
        (by_chance()[:16] * 4, "dropout-repeats"),
        (by_chance(share=2.0), "dropout-deviation"),
        (by_chance(share=0.25), "dropout-deviation"),
        (DRAWN["mean"], "dropout-deviation"),
        ([each + 0.03 for each in by_chance()], "dropout-mean"),
        ([each - 0.03 for each in by_chance()], "dropout-mean"),
        ([*by_chance()[:-1], math.nan], "dropout-mean"),
    ],
)
def test_other_random_numbers_of_dropout_do_not_pass(losses, tier):
    assert of_dropout(losses)[tier]["passed"] is False


def test_half_precision_has_an_error():
    exact, rounded = left(), left()
    rounded["compared"]["gradient"] = {"conv1.weight": [0.2, 2.0], "fc.bias": [0.1, 1.0]}
    for left_over, passes in ((exact, False), (rounded, True)):
        runs = {"timed": left_over, "float64": left()}
        asked = subject(precision="amp")
        tiers = by_name(judge.tiers(asked, MANIFEST, REFERENCE, runs, without={"long"}))
        assert tiers["timed-precision"]["passed"] is passes


def test_steps_that_float64_does_not_show_are_judged_as_they_are_timed():
    assert by_name(judged(left(), None, free=left()))["timed-update"]["passed"]
    again = left(loss=[7.0, 6.0, 6.8, 6.7, 6.6])
    assert not by_name(judged(left(), None, free=again))["timed-losses"]["passed"]
    crashed = {"status": "crashed", "reason": "rank 0: ended with signal 11"}
    assert not by_name(judged(left(), None, free=crashed))["timed-losses"]["passed"]


def test_of_a_training_to_a_quality_in_float32_the_losses_count_that_see_two_rates():
    quality, changes = {**MANIFEST, "variant": "quality"}, {"again_loss": 6.95}
    free = left(loss=[7.0, 6.9, 6.8, 6.6, 6.4], again_loss=6.95)
    found = by_name(judged(left(), None, free=free, manifest=quality, **changes))
    assert found["timed-losses"]["passed"] and found["timed-again-loss"]["passed"]
    free["loss"][2] = 6.7
    found = by_name(judged(left(), None, free=free, manifest=quality, **changes))
    assert not found["timed-losses"]["passed"]


def test_what_an_optimiser_keeps_over_a_new_start_shows_without_float64():
    quality = {**MANIFEST, "variant": "quality"}
    free = left(again_loss=6.95)
    found = by_name(judged(left(), None, free=free, manifest=quality, again_loss=6.95))
    assert found["timed-again"]["passed"]
    free["compared"]["again"]["fc.bias"] = [0.9, 1.0]
    found = by_name(judged(left(), None, free=free, manifest=quality, again_loss=6.95))
    assert not found["timed-again"]["passed"]
    assert found["timed-again"]["worst"]["tensor"] == "fc.bias"


def test_other_input_is_told_apart_from_another_computation():
    tiers = by_name(judged(left(), left(data_digest="d1")))
    assert tiers["input"]["passed"] is False


def test_a_framework_without_float64_says_so_and_can_still_pass():
    tiers = by_name(judged(left()))
    assert tiers["float64-update"]["passed"] is None
    assert "no float64" in tiers["float64-update"]["reason"]
    assert tiers["optimizer"]["passed"]


def test_a_run_that_failed_does_not_pass():
    crashed = {"status": "crashed", "reason": "rank 0: ended with signal 11"}
    tiers = judged(left(), crashed)
    assert any(tier["passed"] is False and "signal 11" in tier["reason"] for tier in tiers)


@pytest.mark.parametrize(
    ("own", "mean_loss", "passes"),
    [
        # other batches make 0.1 of it: a thousandth of that may be missing, and twelve times what
        # one bit of the weights makes
        ([6.05, 6.05], 6.05009, True),
        ([6.05, 6.05], 6.0502, False),
        ([6.05, 6.052], 6.051 + 0.0119, True),
        ([6.05, 6.052], 6.051 - 0.0123, False),
        # no more than all of it, or of what rounding makes if that is more
        ([6.05, 6.15], 6.1 + 0.098, True),
        ([6.05, 6.15], 6.1 + 0.102, False),
        ([6.2, 6.6], 6.4 - 0.25, True),
        ([6.2, 6.6], 6.4 + 0.35, False),
        # 0.2 where its own lead as far away as 6.4
        ([6.4, 6.4], 6.40019, True),
        ([6.4, 6.4], 6.4003, False),
    ],
)
def test_slow_damage_shows_in_the_long_run(monkeypatch, own, mean_loss, passes):
    monkeypatch.setitem(workloads.proof("resnet50").long_runs, "", (6.0, 6.1, 6.2, 6.05, 6.15))
    assert _long_run(own, mean_loss)["passed"] is passes


def test_in_half_precision_a_long_run_may_be_further_off(monkeypatch):
    monkeypatch.setitem(workloads.proof("resnet50").long_runs, "", (6.0, 6.1, 6.2, 6.05, 6.15))
    assert _long_run([6.05, 6.05], 6.061, precision="amp")["passed"]
    assert not _long_run([6.05, 6.05], 6.063, precision="amp")["passed"]


def test_a_long_run_that_nobody_knows_does_not_pass(monkeypatch):
    monkeypatch.delitem(workloads.proof("resnet50").long_runs, "")
    unknown = _long_run([6.0, 6.0], 6.0)
    assert unknown["passed"] is False and "no long run of it" in unknown["reason"]


def _long_run(own: list[float], mean_loss: float, **asked: str) -> dict:
    """The tier of a long run whose losses have this mean, beside the reference's own."""
    runs = {"timed": left(), "float64": left(), "long": left(loss=[mean_loss])}
    manifest = {**MANIFEST, "long_run": {"status": "ok", "mean_losses": own}}
    return judge.tiers(subject(compiler="inductor", **asked), manifest, REFERENCE, runs)[-1]


def test_weights_of_another_rounding_are_one_bit_off():
    start = neutral("resnet50", workloads.certified("resnet50"))
    start = {name: start[name] for name in ("conv1.weight", "fc.bias")}
    assert all(each is start[name] for name, each in long_run.rounded(start, 0).items())
    for name, moved in long_run.rounded(start, 1).items():
        assert moved.dtype == np.float32 and (moved != start[name]).all()
        assert (np.abs(moved - start[name]) <= np.spacing(np.abs(start[name]))).all()
        assert len(set(np.sign(moved - start[name]).ravel())) == 2, "up and down"


def test_missing_and_surplus_tensors_are_found():
    expected = {"a": (2, 3), "b": (4,)}
    found = {"a": (3, 2), "c": (1,)}
    assert wrong_shapes(expected, found) == [
        ["a", (2, 3), (3, 2)],
        ["b", (4,), None],
        ["c", None, (1,)],
    ]


@pytest.mark.parametrize("workload", workloads.NAMES)
def test_neutral_weights_hide_no_setting_and_survive_the_file(workload, tmp_path):
    sizes = workloads.certified(workload)
    weights, tensors = neutral(workload, sizes), workloads.of(workload).parameters(sizes)
    count = workloads.parameter_count(workload, sizes)
    assert {name: each.shape for name, each in weights.items()} == shapes(tensors)
    assert sum(each.size for each in weights.values()) == count
    assert all((each != 0).all() for each in weights.values())
    digest = save(tmp_path / "weights.npy", count, weights.values())
    assert digest == file_sha256(tmp_path / "weights.npy")
    views = split(tensors, np.load(tmp_path / "weights.npy"))
    assert all(np.array_equal(views[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    "name", ["block0.conv2.weight", "fc.weight", "fc.bias", "word_embedding", "pooler.weight"]
)
def test_layouts_come_back(name):
    tensors = {**facts.parameters({}), **bert.parameters({})}
    array, kind = np.random.RandomState(0).rand(*tensors[name].shape), tensors[name].kind
    laid_out = layouts.channels_last(kind, array, np.float32)
    assert laid_out.dtype == np.float32 and laid_out.flags.c_contiguous
    assert np.array_equal(layouts.canonical(kind, laid_out), array.astype(np.float32))


def test_dense_weights_are_transposed_embeddings_are_not():
    array = np.random.RandomState(0).rand(200, 3)  # more rows than a block has, and not a multiple
    assert np.array_equal(layouts.channels_last(tensor.DENSE, array), array.T)
    assert np.array_equal(layouts.channels_last(tensor.EMBEDDING, array), array)
    assert np.array_equal(layouts.channels_last(None, array), array), "no tensor of the facts'"


@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_the_optimizer_decays_weights_but_no_biases(workload):
    formula, facts = workloads.proof(workload), workloads.facts(workload)
    start = {"w": np.ones((2, 2)), "b": np.ones(2)}
    nothing = {"w": np.zeros((2, 2)), "b": np.zeros(2)}
    new = formula.optimizer(start, {"clip": 1}).update(start, nothing, 1.0)
    assert np.allclose(new["w"], 1 - facts.WEIGHT_DECAY)
    assert np.array_equal(new["b"], start["b"])


def test_momentum_adds_up_as_in_the_formula():
    weights, formula = (
        {"b": np.zeros(1)},
        workloads.proof("resnet50").optimizer({"b": np.zeros(1)}, {}),
    )
    for _ in range(2):
        weights = formula.update(weights, {"b": np.ones(1)}, 1.0)
    assert weights["b"][0] == pytest.approx(-(1 + (1 + facts.MOMENTUM)))


def test_adams_first_step_has_the_size_of_the_rate():
    start, gradient = {"b": np.zeros(2)}, {"b": np.array([0.3, -0.1])}
    formula = workloads.proof("bert").optimizer(start, {"clip": 1})
    new = formula.update(start, gradient, 0.5)
    assert new["b"] == pytest.approx([-0.5, 0.5], rel=1e-4)
    assert formula.norms == [pytest.approx(np.hypot(0.3, 0.1))]


def test_gradients_are_clipped_by_the_norm_of_all_tensors_together():
    start = {"a": np.zeros(1), "b": np.zeros(1)}
    formula = workloads.proof("bert").optimizer(start, {"clip": 1})
    formula.update(start, {"a": np.array([30.0]), "b": np.array([40.0])}, 1.0)
    m = [formula.first[name][0] / (1 - bert.BETA1) for name in "ab"]
    assert m == pytest.approx([0.6, 0.8])
    free = workloads.proof("bert").optimizer(start, {"clip": 0})
    free.update(start, {"a": np.array([30.0]), "b": np.array([40.0])}, 1.0)
    assert free.first["a"][0] / (1 - bert.BETA1) == pytest.approx(30.0)


def test_a_large_epsilon_makes_adams_step_the_gradient():
    start, gradient = {"b": np.zeros(2)}, {"b": np.array([0.3, -0.1])}
    with workloads.settings("bert", workloads.proof("bert").gradient_settings):
        formula = workloads.proof("bert").optimizer(start, {"clip": 0})
    new = formula.update(start, gradient, workloads.proof("bert").gradient_learning_rate)
    assert new["b"] == pytest.approx(-gradient["b"], rel=1e-6)
    assert bert.EPSILON == 1e-6, "settings last as long as their block"


def test_given_gradients_lie_on_both_sides_of_the_clip():
    names = ("position_embedding", "layer0.ffn1.bias")
    norms = []
    for each in given_gradients("bert", {}):
        few = {name: each[name] for name in names}
        assert [few[name].shape for name in names] == [(512, 768), (3072,)]
        assert all(array.dtype == np.float32 for array in few.values())
        # of as many values as the model has
        share = sum(array.size for array in few.values()) / workloads.parameter_count("bert", {})
        norms.append(float(adamw.norm(few)) / share**0.5)
    clip = workloads.proof("bert").settings["CLIP_NORM"]
    assert min(norms) < clip < max(norms)


def test_a_sparse_table_is_given_rows_some_of_them_repeatedly_and_some_that_rest():
    sizes = workloads.certified("wide_deep")
    touched = []
    for given in given_gradients("wide_deep", sizes):
        ids, rows = given["deep_embedding"]
        assert rows.shape == (len(ids), 16) and rows.dtype == np.float32
        assert len(set(ids)) < len(ids) < sizes["vocabulary"]
        touched.append(set(ids))
        dense = whole(given["deep_embedding"], (sizes["vocabulary"], 16))
        place = ids[0]
        assert np.allclose(dense[place], rows[ids == place].sum(0), atol=0)
        assert isinstance(given["output.weight"], np.ndarray)
    assert touched[0] - touched[1] and touched[1] - touched[0]
    dense = workloads.certified("wide_deep", "adamdense")
    given = next(given_gradients("wide_deep", dense))
    assert given["deep_embedding"].shape == (sizes["vocabulary"], 16)


def test_where_steps_stay_together_the_worst_tensor_of_several_is_held_too():
    last = {name: [0.0, 1.0] for name in ("a", "b", "c")}
    free = left(compared={"last": {**last, "c": [0.5, 1.0]}})
    runs = {"timed": left(), "free": free}
    for workload, passes in (("resnet50", True), ("wide_deep", False)):
        asked = subject(workload=workload, framework="mindspore", layout="dp2")
        found = by_name(judge.tiers(asked, MANIFEST, REFERENCE, runs))
        assert found["timed-update"]["passed"]
        assert all(tier["passed"] is not False for tier in found.values()) is passes


def test_a_variant_has_the_dimensions_that_it_spells():
    standard = {"sequence_length": 16, "clip": 1, "padded_vocabulary": 0}
    assert dict(workloads.certified("bert")) == standard
    assert dict(workloads.certified("bert", "clip0")) == {**standard, "clip": 0}
    both = {**standard, "clip": 0, "padded_vocabulary": 1}
    assert dict(workloads.certified("bert", "clip0-pad1")) == both
    long = Dimensions(workloads.dimensions("bert"), {"sequence_length": 512, "clip": 0})
    assert long.variant() == "clip0"
    small = Dimensions(workloads.dimensions("resnet50"), {"image_size": 32})
    assert small.variant() == ""
    assert dict(workloads.certified("resnet50", "infer")) == {
        "image_size": 64,
        "fold": 0,
        "mixup": 0,
    }
    folded = {"image_size": 64, "fold": 1, "mixup": 0}
    assert dict(workloads.certified("resnet50", "fold1-infer")) == folded
    mixed = {"image_size": 64, "fold": 0, "mixup": 1}
    assert dict(workloads.certified("resnet50", "mixup1-quality")) == mixed
    heads = ["headmodel", "headpartial"]
    others = ["adamdense", "clip0", "cosface", "fold1-infer", *heads]
    mixed = "mixup1-infer"  # whose last word is of the rules alone, which take both apart
    assert workloads.variants() == [*others, mixed, "pad1", "r50", "sharded", "y1"]


def test_comparison_is_by_norm_of_the_whole_tensor(tmp_path):
    tensors = facts.parameters({})
    expected = {name: np.zeros(each.shape, np.float32) for name, each in tensors.items()}
    expected["fc.bias"][:2] = 3, 4
    size = workloads.parameter_count("resnet50", {})
    save(tmp_path / "1-first.npy", size, expected.values())
    run = SimpleNamespace(
        workload="resnet50",
        data_parallel=1,
        accumulation=1,
        dimensions={},
        layout=Layout(),
        rank=0,
        ranks=1,
    )
    weights = dict(expected, **{"bn1.bias": np.full(64, 0.5, np.float32)})
    task = {"reference": str(tmp_path)}
    compared = compare(weights.items(), expected, run, task, "first")
    assert list(compared) == list(tensors)
    assert compared["fc.bias"][:2] == [5.0, 5.0]  # nothing was added where (3, 4) was expected
    assert compared["bn1.bias"] == [4.0, 0.0, None, ()]  # all of it

    weights["fc.weight"] = weights["fc.weight"].T
    del weights["bn1.bias"]
    with pytest.raises(OtherModel) as raised:
        compare(weights.items(), expected, run, task, "first")
    assert raised.value.shapes == [
        ["bn1.bias", (64,), None],
        ["fc.weight", (1000, 2048), (2048, 1000)],
    ]


def test_a_certificate_of_several_ranks_has_their_mean_loss_and_the_worst_of_their_tests():
    """Of a new start too: each rank has the loss of its own part of the batch."""
    ranks = [left(again_loss=7.5, tested=1e-9), left(again_loss=6.5, tested=1e-3)]
    grid = Grid(Mesh(2), {}, {}, 0)
    found = of_all_ranks(ranks, {"kind": "steps"}, grid)
    assert found["again_loss"] == 7.0
    assert found["tested"] == 1e-3
    assert found["loss"] == REFERENCE["loss"]
