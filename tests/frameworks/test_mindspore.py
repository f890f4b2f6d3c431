"""MindSpore: what it cannot do with tables of which a step touches some rows."""

import dataclasses

import pytest

from dlperf.contract.layout import Layout
from dlperf.frameworks import mindspore

LAZY = {"adam": "lazy", "compiler": "graph", "device": "cpu", "precision": "fp32"}
LAZY.update(scenario="train", layout=dataclasses.asdict(Layout()))


def test_rows_are_updated_in_a_graph_on_a_cpu():
    assert not mindspore.unsupported(LAZY)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"compiler": "none"}, "PYNATIVE"),
        ({"device": "cuda"}, "GPU"),
        ({"layout": dataclasses.asdict(Layout(accumulation=2))}, "micro-steps"),
        ({"adam": "dense"}, "certificate"),
    ],
)
def test_elsewhere_it_says_why_not(change, reason):
    assert reason in mindspore.unsupported(dict(LAZY, **change))


@pytest.mark.parametrize("change", [{"compiler": "none"}, {"device": "cuda"}])
def test_an_inference_updates_no_rows(change):
    assert not mindspore.unsupported(dict(LAZY, scenario="infer", **change))
