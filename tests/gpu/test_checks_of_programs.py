"""xla_checks.py on a small program whose text is changed: each check refuses what it is for."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import xla_checks
from gpu_steps import Step
from xla_program import Program
from xla_steps import Compiled

PROGRAM = (Path(__file__).parent / "small_program.txt").read_text()
FACTS = {"temporary_bytes": 1000, "argument_bytes": 1000}


def kinds(workload: str, precision: str, changes=()) -> set[str]:
    text = PROGRAM
    for was, now in changes:
        assert was in text
        text = text.replace(was, now)
    step = Step(workload, precision, layers=1)  # shortened: no count of its bytes
    found = xla_checks.problems(Compiled(step, Program(text), FACTS))
    return set(found) - {"copies"}  # half of this program


def test_a_float32_product_stands_where_its_page_says_so():
    assert kinds("resnet50", "amp") == set()
    assert kinds("bert", "amp") == {"types"}
    assert kinds("resnet50", "amp", [("update)/fc/", "update)/block0/conv1/")]) == {"types"}
    assert kinds("insightface", "amp") == set()
    assert kinds("insightface", "amp", [("update)/fc/", "jvp(Face)/stem/conv/")]) == {"types"}


#: All products in float32, with all its bits.
EXACT = [
    ("bf16[", "f32["),
    ("lhs_contracting_dims={1}", "lhs_contracting_dims={1}, operand_precision={highest,highest}"),
    ("dim_labels=b01f", "operand_precision={highest,highest}, dim_labels=b01f"),
]


@pytest.mark.parametrize(
    ("workload", "precision", "changes", "kind"),
    [
        ("resnet50", "amp", [("->b01f", "->bf01")], "layout"),
        ("resnet50", "amp", [('"known_trip_count":{"n":"5"}', '"a":1')], "host"),
        ("resnet50", "amp", [('"is_sync":false', '"is_sync":true')], "waiting"),
        ("resnet50", "amp", [("= bf16[8,4]{1,0} parameter", "= f16[8,4] parameter")], "types"),
        ("resnet50", "amp", [("= bf16[8,4]{1,0} parameter", "= s8[8,4] parameter")], "types"),
        ("resnet50", "amp", [("%weights = f32", "%weights = f64")], "types"),  # stated for float32
        ("resnet50", "fp32", [], "types"),  # products in bfloat16
        ("resnet50", "fp32", EXACT, ""),
        ("resnet50", "fp32", [*EXACT, ("HIGHEST", "DEFAULT")], "tf32"),
        ("resnet50", "fp32", [*EXACT, ("ALG_UNSET", "ALG_DOT_BF16_BF16_F32_X3")], "tf32"),
        ("resnet50", "fp32", [*EXACT, ("%a_and_b = f32[]", "%a_and_b = bf16[]")], "types"),
        ("resnet50", "fp32", [*EXACT, ("transpose(%x)", "reduce-precision(%x)")], "types"),
        ("resnet50", "tf32", [], "types"),
        ("resnet50", "tf32", [], "exact"),  # a product in all bits of float32
    ],
)
def test_a_changed_program_is_refused(workload, precision, changes, kind):
    found = kinds(workload, precision, changes)
    assert kind in found if kind else found == set()


def test_products_multiply_as_often_as_the_formula_says():
    def step(share):
        product = SimpleNamespace(flops=share * 1e9)
        return SimpleNamespace(flops=161e9, program=SimpleNamespace(products=[product] * 161))

    assert not list(xla_checks.work(step(0.99)))  # ResNet-50, without the gradient of its images
    assert list(xla_checks.work(step(11 / 12)))  # BERT-Base without a layer
    assert list(xla_checks.work(step(1 / 3)))  # the forward pass alone
    assert list(xla_checks.work(step(1.05)))


def test_kernels_are_few_for_the_products():
    def step(kernels):
        program = SimpleNamespace(kernels=kernels, products=[None] * 161)
        return SimpleNamespace(step=Step("resnet50"), program=program)

    assert not list(xla_checks.kernels(step(956)))  # ResNet-50
    assert list(xla_checks.kernels(step(2600)))


def test_copies_are_few_beside_all_bytes():
    def step(moved):
        return SimpleNamespace(program=SimpleNamespace(transposed=(159, moved), bytes=100e9))

    assert not list(xla_checks.copies(step(0.52e9)))  # ResNet-50
    assert list(xla_checks.copies(step(11.2e9)))


def many(count: int, size: int) -> Compiled:
    """So many all-reduces of so many bytes in all."""
    exchange = SimpleNamespace(kind="all-reduce", bytes=size / count, asynchronous=True)
    return SimpleNamespace(program=SimpleNamespace(collectives=[exchange] * count))


def test_exchanges_are_few_for_their_bytes():
    assert not list(xla_checks.exchanges(many(14, 440e6)))  # BERT-Base
    assert not list(xla_checks.exchanges(many(1, 1e3)))
    assert list(xla_checks.exchanges(many(199, 440e6)))
    assert list(xla_checks.exchanges(many(34, 102e6)))  # ResNet-50


def kept(gigabytes: float, temporary: float, arguments: float = 1.0):
    return SimpleNamespace(
        limits={"least": 29e9, "eager": 122e9, "kept": 5.8e9},
        program=SimpleNamespace(bytes=gigabytes * 1e9),
        temporary_bytes=temporary * 1e9,
        facts={"argument_bytes": arguments * 1e9},
    )


def test_bytes_lie_between_the_least_and_those_of_separate_kernels():
    for gigabytes, found in ((100, []), (20, ["less"]), (130, ["bytes"])):
        assert [kind for kind, _ in xla_checks.traffic(kept(gigabytes, 10))] == found


def test_temporary_arrays_are_few_and_fit_the_card():
    assert list(xla_checks.memory(kept(100, 10.5))) == []
    assert [kind for kind, _ in xla_checks.memory(kept(100, 20.8))] == ["memory"]
    assert [kind for kind, _ in xla_checks.memory(kept(100, 10.5, 80))] == ["card"]


def test_bytes_of_the_whole_networks_are_counted_by_their_facts():
    made = Compiled(Step("resnet50"), None, FACTS)
    assert made.limits["least"] == pytest.approx(29.27e9, rel=0.01)
    assert made.limits["kept"] == pytest.approx(5.8e9, rel=0.05)
    more = Compiled(Step("resnet50", layout={"accumulation": 2}), None, FACTS)
    assert more.limits["kept"] == made.limits["kept"]
    assert more.limits["eager"] == pytest.approx(2 * made.limits["eager"], rel=0.01)
    assert Compiled(Step("resnet50", layers=1), None, FACTS).limits is None
    assert Compiled(Step("resnet50", layers=1), None, FACTS).flops is None
    assert made.flops == pytest.approx(256 * 24.54e9, rel=1e-3)
    split = Step("gpt", devices=2, layout={"tensor_parallel": 2})
    assert Compiled(split, None, FACTS).flops is None
    assert Compiled(Step("wide_deep"), None, FACTS).limits is None
