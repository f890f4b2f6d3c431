"""What torch_log.py reads in a small log of the null device, and that each of torch_checks.py's
checks refuses what it is for."""

import re
from pathlib import Path

import pytest
import torch_checks
from gpu_steps import Step
from torch_log import Log
from torch_steps import Driven

LOG = (Path(__file__).parent / "small_log.txt").read_text()
FACTS = {
    "device_bytes": 10**9,
    "peak_bytes": 10**9,
    "resident_bytes": 10**8,
    "parameters": (26214400 + 1048576) // 4,
    "parity": {
        "cuda_graphs": "captured: 1, skipped: 0",
        "attention": "scaled_dot_product_attention: memory-efficient",
    },
}


def said(**parity: str) -> dict:
    """Facts whose record says something else."""
    return {**FACTS, "parity": {**FACTS["parity"], **parity}}


#: The device's work in a step of the small log.
WORK = 15


def changed(*changes: tuple[str, str]) -> str:
    text = LOG
    for was, now in changes:
        assert was in text, was
        text = text.replace(was, now)
    return text


def kinds(*changes, workload="bert", precision="amp", facts=FACTS, **fields) -> set[str]:
    """The checks that a step of one layer does not pass, whose log is so changed."""
    step = Step(workload, precision, **{"layers": 1, "compiler": "none", **fields})
    return set(torch_checks.problems(Driven(step, Log(changed(*changes)), facts)))


def test_a_step_is_what_stands_before_its_mark():
    assert len(Log(LOG).steps) == 2
    with pytest.raises(ValueError, match="ends within a step"):
        Log(LOG + "\tkernel\t0\tone\n")


def test_a_replay_of_a_graph_is_one_launch_and_all_its_work():
    step = Log(LOG).step
    assert step.work == WORK
    assert step.graphs == 1
    assert step.launches == WORK - 3 + 1


def test_a_product_has_its_types_layout_and_flops():
    first, gemm, *_ = Log(LOG).step.products
    assert first.is_convolution and first.layout == "NHWC" and first.flops == 67108864
    assert gemm.types == ("bf16", "bf16", "bf16") and gemm.rounding == "-"


def test_an_exchange_has_the_products_that_run_beside_it():
    early, late = Log(LOG).step.exchanges
    assert (early.kind, early.bytes, early.beside) == ("all-reduce", 26214400, 2)
    assert late.beside == 0
    queued_behind_it = Log(changed(("\texchange\t3", "\texchange\t0"))).step.exchanges
    assert [each.beside for each in queued_behind_it] == [0, 0]


@pytest.mark.parametrize(
    ("was", "now", "backend"),
    [
        ("", "", "memory-efficient (CUTLASS)"),
        ("kernel\t2\t_Z40fmha_cutlassF", "kernel\t2\t_Z9flash_fwd_kernel", "flash"),
        ("kernel\t2\t_Z40fmha_cutlassF", "cudnn\t2\tgraph of operations 19 14 19 ", "cuDNN"),
    ],
)
def test_the_backend_of_attention_is_known_by_its_forward_kernel(was, now, backend):
    assert Log(changed((was, now)) if was else LOG).step.attention == {backend: 1}


def test_the_small_step_keeps_to_all_limits():
    assert kinds() == set()
    assert kinds(workload="resnet50") == set()
    assert kinds(compiler="inductor") == set()
    assert kinds(devices=2) == set()


EXACT = [("bf16 bf16 bf16 -", "f32 f32 f32 exact")]
KERNEL = "\tkernel\t0\t_ZN2at6native29vectorized"


@pytest.mark.parametrize(
    ("changes", "fields", "kind"),
    [
        ([("gemm bf16 bf16 bf16 -", "gemm f32 f32 f32 exact")], {}, "types"),
        ([("filter bf16 bf16 bf16 -", "filter f32 bf16 bf16 exact")], {}, "types"),
        ([], {"precision": "amp_fp16"}, "types"),
        ([("gemm bf16 bf16", "gemm f16 f16")], {}, "types"),
        ([("NHWC", "NCHW")], {}, "layout"),
        ([], {"precision": "fp32"}, "types"),
        (EXACT, {"precision": "fp32"}, ""),
        ([*EXACT, ("f32 exact", "f32 tf32")], {"precision": "fp32"}, "tf32"),
        (EXACT, {"precision": "tf32"}, "exact"),
        ([*EXACT, ("f32 exact", "f32 tf32")], {"precision": "tf32"}, ""),
        ([(KERNEL, "\twait\t\tcudaStreamSynchronize\n" + KERNEL)], {}, "host"),
        ([(KERNEL, "\tallocate\t\t1024\n" + KERNEL)], {}, "host"),
        ([(KERNEL, "\tfree\t\tcudaFree\n" + KERNEL)], {}, "host"),
        ([(KERNEL, "\tcapture\t\tbegins\n" + KERNEL)], {}, "host"),
        ([("H2D pinned", "H2D pageable")], {}, "host"),
        ([(KERNEL, "\tcopy\t0\tD2H pageable 4\n" + KERNEL)], {}, "host"),
        ([(KERNEL, "\tcopy\t0\tD2H pinned 4\n" + KERNEL)], {}, ""),
        ([(KERNEL, "\tunanswered\t\tcudaGraphAddNode\n" + KERNEL)], {}, "device"),
        ([(KERNEL, 80 * (KERNEL + "\n") + KERNEL)], {}, "launches"),
        ([("fmha_cutlassF", "separate")], {}, "attention"),
        ([("fmha_cutlassF", "fmha_cutlassB")], {}, "attention"),  # the backward pass is none
        ([], {"layers": 2}, "attention"),
        ([("\tgraph\t0\t7\n", "")], {"compiler": "inductor"}, "graphs"),
        ([(KERNEL, 30 * (KERNEL + "\n") + KERNEL)], {"compiler": "inductor"}, "graphs"),
        ([("\tgraph\t0\t7\n", "")], {"compiler": "inductor", "devices": 2}, ""),
        ([("exchange\t3\tall-reduce", "fill\t3\t4")], {"devices": 2}, "gradients"),
        ([("f32 26214400", "f32 26214396")], {"devices": 2}, "gradients"),
        ([("f32 26214400", "bf16 26214400")], {"devices": 2}, "gradients"),
        (
            [
                (
                    "\texchange\t3\tall-reduce f32 1048576",
                    "\texchange\t3\tall-reduce f32 524288\n"
                    + "\texchange\t3\tall-reduce f32 524288",
                ),
                ("\texchange\t3", "\texchange\t0"),
            ],
            {"devices": 2},
            "waiting",
        ),
        (
            [("\texchange\t3\t", 5 * "\texchange\t3\tall-reduce f32 4\n" + "\texchange\t3\t")],
            {"devices": 2},
            "exchanges",
        ),
        ([], {"facts": {**FACTS, "device_bytes": 10**11}}, "card"),
        (
            [],
            {"compiler": "inductor", "facts": said(cuda_graphs="captured: 0")},
            "graphs",
        ),
        ([], {"facts": said(attention="scaled_dot_product_attention: flash")}, "attention"),
    ],
)
def test_a_changed_log_is_refused(changes, fields, kind):
    found = kinds(*changes, **fields)
    assert kind in found if kind else found == set()


def test_steps_of_a_window_are_alike():
    first, mark, second = LOG.partition("\tmark\t\tstep\n")
    other = first + mark + re.sub("\tfill.*\n", "", second)
    step = Step("bert", layers=1, compiler="none")
    assert set(torch_checks.problems(Driven(step, Log(other), FACTS))) == {"alike"}


def test_products_multiply_as_often_as_the_formula_says():
    """Of BERT-Base, whose attention is one kernel with products of its own."""
    step = Step("bert", compiler="none")
    whole = step.flops - torch_checks.attention_flops(step)

    def share_is_refused(share: float) -> bool:
        lines = "\n".join(
            re.sub(r"(gemm.* )\d+$", rf"\g<1>{int(share * whole / 2)}", line)
            for line in LOG.splitlines()
            if "convolution" not in line
        )
        return "work" in torch_checks.problems(Driven(step, Log(lines + "\n"), FACTS))

    assert not share_is_refused(1.0)
    assert share_is_refused(11 / 12)
    assert share_is_refused(1 / 3)
    assert share_is_refused(1.05)


def test_what_a_step_keeps_is_little_more_than_what_its_products_give():
    """Of ResNet-50, 256 images: 5.8 GB."""

    def kinds_of(text: str, **bytes_: float) -> set[str]:
        facts = {**FACTS, "resident_bytes": 3e8, **bytes_}
        step = Step("resnet50", compiler="none")
        return set(torch_checks.problems(Driven(step, Log(text), facts))) - {"work"}

    eager = changed(("\tgraph\t0\t7\n", ""))
    assert kinds_of(eager, peak_bytes=13e9, device_bytes=30e9) == set()
    assert kinds_of(eager, peak_bytes=20e9) == {"memory"}
    # the allocator's peak leaves out what graphs own
    assert kinds_of(LOG, peak_bytes=3e8, device_bytes=13e9) == set()
    assert kinds_of(LOG, peak_bytes=3e8, device_bytes=20e9) == {"memory"}
