"""Which samples of a batch are replayed, and what is asked of the formulas."""

from collections import Counter

import numpy as np
import pytest

from dlperf import plan
from dlperf.certify import evaluated
from dlperf.certify.formulas import Unavailable
from dlperf.measure import bounds


def test_samples_are_drawn_by_a_number_that_came_behind_the_window():
    asked = {"signs": 5, "samples": [None] * 20}
    rows = evaluated.drawn_rows(asked, 20, 4)
    assert list(rows) == sorted(set(rows)) and len(rows) == 4
    assert list(rows) == list(evaluated.drawn_rows(asked, 20, 4))
    drawn = Counter(
        row
        for signs in range(400)
        for row in evaluated.drawn_rows({**asked, "signs": signs}, 20, 4)
    )
    assert set(drawn) == set(range(20)) and min(drawn.values()) > 40  # 80 each, by chance


def test_all_samples_are_replayed_where_they_are_judged_together():
    assert list(evaluated.drawn_rows({"signs": 5, "samples": [None]}, 6, 2)) == list(range(6))


def case_of(batch_size: int, devices: int = 1):
    own = {"epochs": [1], "evaluations": 1, "data": ["digits"], "image_size": 32}
    section = {"scenarios": ["quality"], "precisions": ["fp32"], "quality": own}
    config = plan.load(
        {
            "round": "test",
            "device": "cpu",
            "frameworks": ["pytorch"],
            "workloads": {"resnet50": {**section, "batch_sizes": {"fp32": [batch_size]}}},
            "topologies": [f"1n{devices}d"],
            "repetitions": 1,
            "steps": {"warmup": 1, "measured": 1},
        }
    )
    return plan.expand(config)[0]


def test_as_many_samples_are_replayed_as_the_config_gives_time_for():
    case = case_of(256)
    each = bounds.seconds_of_sample(case)
    assert bounds.samples(case, 600) == 256
    assert bounds.samples(case, 10.5 * each) == 10
    assert bounds.samples(case_of(256, 4), 10.5 * each) == 2
    assert not bounds.unreplayed(case, 1.01 * each, 8)
    assert "checks.seconds" in bounds.unreplayed(case, 0.99 * each, 8)
    assert "checks.gigabytes" in bounds.unreplayed(case, 600, 0.1)
    assert "checks.seconds: 0" in bounds.unreplayed(case, 0, 8)


def answers(*rows: float):
    """What gives these answers; nothing finite: rounding decides that one."""

    def answer(batch, seed=0):
        if np.isnan(batch[0]).any():
            raise ValueError("decided by rounding")
        return np.asarray(batch[0])

    return answer, [np.array(rows)[:, None]]


def test_samples_in_which_rounding_decides_are_told_apart_from_the_others():
    outputs, decided = evaluated.one_by_one(*answers(1, np.nan, 3))
    assert list(decided) == [True, False, True]
    assert outputs[decided].ravel().tolist() == [1, 3]
    with pytest.raises(Unavailable, match="every sample"):
        evaluated.one_by_one(*answers(np.nan, np.nan))
