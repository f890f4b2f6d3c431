"""What readers are told of a case's sizes: those that say something of it."""

import pytest
from generated_round import config

from dlperf import plan
from dlperf.analysis.round import labels


def row_of(workload, scenario="train", **section):
    """A row of cells.tsv of a case of PyTorch, as far as labels read it."""
    mapping = {"scenarios": [scenario], "precisions": ["fp32"], "batch_sizes": {"fp32": [8]}}
    made = plan.load(config(workloads={workload: {**mapping, **section}}, topologies=["1n2d"]))
    (case,) = [case for case in plan.expand(made) if case.framework == "pytorch"]
    return {"workload": workload, "scenario": scenario, "searched": "", **case.dimensions}


def electra(**own):
    asked = {"epochs": [2], "first_steps": 48, "second_length": 32, **own}
    return row_of("electra", "quality", sequence_length=16, quality=asked)


def test_a_training_has_no_sizes_of_a_second_phase():
    row = row_of("electra", sequence_length=16)
    assert labels.sizes(row) == ["sequence length 16 — reduced from the standard 128"]
    assert labels.short_sizes(row) == "sequence length 16 (standard: 128)"


def test_a_training_of_two_phases_has_them():
    assert labels.sizes(electra())[1:] == [
        "first steps 48 — reduced from the standard 10,000",
        "second length 32 — reduced from the standard 512",
    ]
    assert labels.sizes(electra(second_batch_size=3))[-1] == "second batch size 3"
    assert labels.short_sizes(electra(second_batch_size=3)).endswith(", second batch size 3")


@pytest.mark.parametrize(("head", "told"), [("data", False), ("model", False), ("partial", True)])
def test_a_sample_is_told_where_one_is_drawn(head, told):
    row = row_of("insightface", head=[head])
    assert any("sample percent" in text for text in labels.sizes(row)) == told
    assert ("sample percent" in labels.short_sizes(row)) == told
