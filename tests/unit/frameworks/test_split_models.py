"""What a framework cannot do with a model split by tensors is unsupported, with a reason."""

import dataclasses

import pytest

from dlperf import frameworks
from dlperf.contract.layout import Layout

TENSORS = dataclasses.asdict(Layout(tensor_parallel=2))


def reason(framework: str, **changes: str) -> str:
    """Why the framework cannot train a split model on a CPU, or with these changes."""
    case = {
        "scenario": "train",
        "precision": "fp32",
        "compiler": frameworks.of(framework).default_compiler["cpu"],
        "device": "cpu",
        "layout": TENSORS,
    }
    return frameworks.of(framework).unsupported({**case, **changes})


@pytest.mark.parametrize("framework", ["tensorflow", "mindspore", "oneflow"])
def test_it_trains_one_on_a_cpu(framework):
    assert reason(framework) == ""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tensorflow_compiles_none_by_xla(device):
    assert "ask for the compiler 'none'" in reason("tensorflow", compiler="xla", device=device)
