"""What xla_program.py reads in a small program, written in the form that XLA prints."""

import re
from pathlib import Path

import pytest
from xla_program import Program, size

PROGRAM = (Path(__file__).parent / "small_program.txt").read_text()


def test_kernels_are_fusions_calls_and_single_operations():
    launches = Program(PROGRAM).launches
    assert launches["fusion"] == 4
    assert launches["__cudnn$convForward"] == launches["__cublas$gemm"] == 1
    assert launches["all-reduce-start"] == 1 and launches["all-reduce-done"] == 0
    assert not launches.keys() & {"parameter", "get-tuple-element", "tuple", "while", "constant"}
    assert Program(PROGRAM).kernels == 4 + 2 + 2 + 2  # and two converts, two broadcasts


def test_a_loop_counts_as_often_as_it_turns():
    assert Program(PROGRAM).launches["copy"] == 5
    once = PROGRAM.replace('"n":"5"', '"n":"1"')
    assert Program(once).launches["copy"] == 1
    assert Program(PROGRAM).bytes - Program(once).bytes == 4 * (8 * 4 * 4) * 2


def moved(fused: str) -> int:
    """Bytes that the fusion of a computation moves."""
    without = re.sub(
        rf"(\n  %\S+ = \S+) fusion\((.*?)\), kind=\w+, calls=%{fused}\n", r"\1 add(\2)\n", PROGRAM
    )
    assert without != PROGRAM
    return Program(PROGRAM).bytes - Program(without).bytes


def test_of_a_table_rows_count_that_are_looked_up_or_written():
    whole, row, ids = 1000 * 4 * 4, 8 * 4 * 4, 8 * 4
    assert moved("looked_up") == (row + ids + row) - (whole + ids + row)
    # rows that are read and added to, ids, what is added; and the rows that are written
    assert moved("written") == (row + ids + row + row) - (whole + ids + row + whole)


def test_copies_and_transposes_by_themselves_are_counted():
    count, moved = Program(PROGRAM).transposed
    assert count == 5 + 1
    assert moved == 6 * 2 * (8 * 4 * 4)


def test_a_product_has_the_types_of_its_factors_and_its_place_in_the_page():
    dot, convolution, gemm = Program(PROGRAM).products
    assert dot.types == convolution.types == ("bf16", "bf16")
    assert convolution.is_channels_last and convolution.where.endswith("conv/conv_general_dilated")
    assert gemm.types == ("f32", "f32") and not gemm.is_tf32 and "/fc/" in gemm.where


def test_products_count_two_flops_for_each_multiplication():
    dot, convolution, gemm = Program(PROGRAM).products
    assert dot.flops == 2 * 8 * 8 * 4
    assert convolution.flops == 2 * (2 * 8 * 8) * (4 * 3 * 3 * 4)
    # a product of cuBLAS names its sums elsewhere
    named = '"gemm_backend_config":{"lhs_contracting_dimensions":["1"],'
    assert Program(PROGRAM.replace('"gemm_backend_config":{', named)).products[2].flops == 512


CONVOLUTION = """  %conv = (bf16[2,8,8,4]{3,2,1,0}, u8[4096]{0}) custom-call(%image, %kernel)"""


@pytest.mark.parametrize(
    ("target", "given", "result"),
    [
        ("__cudnn$convBackwardInput", "%image, %kernel", "bf16[2,16,16,4]"),
        ("__cudnn$convBackwardFilter", "%image, %image", "bf16[4,3,3,4]"),
    ],
)
def test_gradients_of_a_convolution_have_its_flops(target, given, result):
    """Of one that halves the sides of its images, 16 x 16."""
    other = f"  %conv = ({result}, u8[0]) custom-call({given})"
    text = PROGRAM.replace(CONVOLUTION, other).replace("__cudnn$convForward", target)
    assert text.count(other) == 1
    assert Program(text).products[1].flops == 2 * (2 * 8 * 8) * (4 * 3 * 3 * 4)


def test_types_and_rounded_numbers_are_seen_inside_of_fusions():
    assert Program(PROGRAM).types >= {"f32", "bf16", "s32", "pred"}
    assert not Program(PROGRAM).rounds
    rounded = PROGRAM.replace("transpose(%x), dimensions={1,0}", "reduce-precision(%x)")
    assert Program(rounded).rounds


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("b01f_o01i->b01f", "bf01_oi01->bf01"),
        ("b01f_o01i->b01f", "b01f_o01i->bf01"),
        ("b01f_o01i->b01f", "bf01_o01i->b01f"),
    ],
)
def test_another_layout_is_seen(was, now):
    convolution = Program(PROGRAM.replace(was, now)).products[1]
    assert not convolution.is_channels_last


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"operand_precision":["HIGHEST","HIGHEST"]', '"operand_precision":["DEFAULT","DEFAULT"]'),
        ('"algorithm":"ALG_UNSET"', '"algorithm":"ALG_DOT_TF32_TF32_F32"'),
        ('"precision_config":{"operand_precision":["HIGHEST","HIGHEST"],', '"precision_config":{'),
    ],
)
def test_tf32_is_seen(was, now):
    assert was in PROGRAM
    assert Program(PROGRAM.replace(was, now)).products[2].is_tf32


def test_an_exchange_is_asynchronous_unless_it_says_otherwise_or_is_not_split():
    (own,) = Program(PROGRAM).collectives
    assert own.asynchronous and own.kind == "all-reduce" and own.bytes == 4 * (8 * 4 + 8)
    waits = PROGRAM.replace('"is_sync":false', '"is_sync":true')
    assert not Program(waits).collectives[0].asynchronous
    alone = PROGRAM.replace("all-reduce-start(", "all-reduce(")
    assert not Program(alone).collectives[0].asynchronous


def test_a_program_of_the_host_is_queued_alone():
    assert Program(PROGRAM).host == []


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ('"known_trip_count":{"n":"5"}', '"a":1', "a loop without a known number of turns"),
        ('"__cublas$gemm"', '"xla_ffi_python_gpu_callback"', "xla_ffi_python_gpu_callback"),
        ("%copied = f32[8,4]{1,0} copy", "%copied = f32[8,4]{1,0:S(5)} copy", "host's memory"),
        ("= bf16[8,4]{1,0} convert(", "= bf16[8,4]{1,0} infeed(", "infeed"),
        ("= bf16[8,4]{1,0} convert(", "= bf16[8,4]{1,0} outfeed(", "outfeed"),
        (
            "while(%before), condition=%goes_on, body=%turn",
            "conditional(%first, %before, %before), branch_computations={%turn, %turn}",
            "a branch",
        ),
        (
            "while(%before), condition=%goes_on, body=%turn",
            "conditional(%first, %before, %before), "
            "true_computation=%turn, false_computation=%turn",
            "a branch",
        ),
    ],
)
def test_what_the_host_does_in_a_step_is_seen(was, now, said):
    assert was in PROGRAM
    (found,) = Program(PROGRAM.replace(was, now)).host
    assert said in found


def test_a_transfer_of_another_ranks_device_is_none_of_the_hosts():
    send = "= bf16[8,4]{1,0} send(%weights), channel_id=1"
    assert Program(PROGRAM.replace("= bf16[8,4]{1,0} convert(%weights)", send)).host == []
    to_host = send + ", is_host_transfer=true"
    (found,) = Program(PROGRAM.replace("= bf16[8,4]{1,0} convert(%weights)", to_host)).host
    assert found.startswith("send")


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ("bf16[256,56,56,64]{3,2,1,0}", 2 * 256 * 56 * 56 * 64),
        ("(f32[2]{0}, /*index=1*/pred[3]{0}, token[])", 8 + 3),
        ("f32[]", 4),
        ("f8e4m3fn[16]{0}", 16),
        ("s4[16]{0}", 8),
    ],
)
def test_bytes_of_a_shape(shape, count):
    assert size(shape) == count
