"""tf_checks.py on a few operations, of which one is changed: each check refuses what it is for."""

import pytest
import tf_checks
from gpu_steps import Step
from tf_steps import Traced


def operation(op: str, layout: str = "", **changes) -> dict:
    own = {"op": op, "name": op.lower(), "types": {"T": "bfloat16"}, "layout": layout}
    return {**own, "compiled": False, "kernel": "GPU", "from_device": [], **changes}


OPERATIONS = [
    operation("Conv2D", "NHWC"),
    operation("FusedBatchNormV3", "NHWC"),
    operation("MatMul"),
    operation("BatchMatMulV2"),
    *(operation("Transpose") for _ in range(5)),
    operation("ResourceApplyAdam", types={"T": "float32"}),
]


def kinds(*more: dict, workload: str = "resnet50", precision: str = "amp") -> set[str]:
    return set(tf_checks.problems(Traced(Step(workload, precision), [*OPERATIONS, *more])))


def test_a_step_in_mixed_precision_keeps_to_all_of_it():
    assert kinds() == set()


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        (operation("NthElement", kernel="CPU"), "kernels"),
        (operation("NthElement", kernel=""), "kernels"),
        (operation("NthElement", kernel="XLA", compiled=True), ""),
        (operation("Where"), "host"),
        (operation("UniqueV2"), "host"),
        (operation("If"), "host"),
        (operation("StatelessWhile"), "host"),
        (operation("StatelessWhile", kernel="XLA", compiled=True), ""),
        (operation("EagerPyFunc", kernel="XLA", compiled=True), "host"),
        (operation("NotEqual", from_device=["x: ArgMax"]), "host"),
        (operation("MatMul", types={"T": "float32"}), "types"),
        (operation("MatMul", types={"T": "float16"}), "types"),
        (operation("DepthwiseConv2dNative", types={"T": "float32"}), "types"),
        (operation("Einsum", types={"T": "float32"}), "types"),
        (operation("Cast", types={"T": "float32"}), ""),
        (operation("Conv2DBackpropInput", "NCHW"), "layout"),
        (operation("FusedBatchNormGradV3", "NCHW"), "layout"),
        (operation("Transpose"), "transposes"),
    ],
    ids=lambda each: each if isinstance(each, str) else each["op"],
)
def test_a_changed_operation_is_refused(changed, kind):
    assert kinds(changed) == ({kind} if kind else set())


@pytest.mark.parametrize(("precision", "type_"), [("fp32", "float32"), ("amp_fp16", "float16")])
def test_products_are_in_the_type_that_is_asked_for(precision, type_):
    assert kinds(precision=precision) == {"types"}
    right = [{**each, "types": {"T": type_}} for each in OPERATIONS]
    assert tf_checks.problems(Traced(Step("resnet50", precision), right)) == {}


def test_what_follows_insightfaces_backbone_may_be_in_float32():
    wide = {"types": {"T": "float32"}}
    assert kinds(operation("MatMul", **wide), workload="insightface") == set()
    assert kinds(operation("Conv2D", "NHWC", **wide), workload="insightface") == {"types"}
    assert kinds(operation("MatMul", types={"T": "float64"}), workload="insightface") == {"types"}


def test_a_problem_says_how_often_and_where():
    found = tf_checks.problems(Traced(Step("bert"), [operation("Where"), operation("Where")]))
    assert found == {"host": "2: Where of bfloat16: where"}
