"""How a framework is drawn, in every figure and in the report's explorer."""

from collections.abc import Mapping

#: (colour, marker, hatch). Colours after Okabe & Ito (2008), distinct for any colour vision;
#: they also differ in lightness, and marker and hatch tell them apart without colour.
STYLES: Mapping[str, tuple[str, str, str]] = {
    "pytorch": ("#d55e00", "o", ""),
    "deepspeed": ("#8c1d40", "p", "**"),
    "megatron": ("#24292f", "<", "OO"),
    "tensorflow": ("#e69f00", "s", "//"),
    "tensorflow1": ("#9a7b38", "D", "\\\\"),
    "mxnet": ("#0072b2", "^", "xx"),
    "paddlepaddle": ("#56b4e9", "v", ".."),
    "oneflow": ("#009e73", "P", "--"),
    "mindspore": ("#cc79a7", "X", "||"),
    "jax": ("#8250c4", "*", "++"),
    "hugectr": ("#7d8590", "h", "oo"),
}
