"""Noise floor, drift, outliers: found where they are, and not where they are not."""

import random
import statistics

import pytest

from dlperf.analysis.round.calibration import noise
from dlperf.analysis.schema.files import Row
from dlperf.analysis.statistics.medians import modified_z_scores, outliers


def repetitions(
    cells: int = 16,
    n: int = 6,
    spread: float = 0.01,
    drift: float = 0.0,  # a share an hour
    seed: int = 1,
    late: str = "",  # the case that is measured 5 hours after the others
) -> list[Row]:
    """Repetitions in turns, 3 minutes apart, on one host."""
    dice, rows = random.Random(seed), []
    for turn in range(n):
        for cell in range(cells):
            hours = 0.05 * (turn * cells + cell) + 5 * (f"case{cell}" == late)
            speed = (5 + cell) * (1 + spread * dice.gauss(0, 1)) * (1 + drift * hours)
            minutes, seconds = divmod(round(hours * 3600), 60)
            row = {
                "status": "ok",
                "workload": "resnet50" if cell % 2 else "bert",
                "framework": "pytorch",
                "case": f"case{cell}",
                "table": "table",
                "hostname": "node1",
                "nodes_used": "node1",
                "throughput": speed,
                "window_start_utc": f"2026-11-21T{minutes // 60:02}:{minutes % 60:02}:"
                f"{seconds:02}.000000Z",
            }
            rows.append(row)
    return rows


@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_noise_floor_is_the_noise_however_few_repetitions_a_cell_has(n):
    found = [noise.floors(repetitions(n=n, seed=seed))[-1].noise for seed in range(60)]
    assert statistics.fmean(found) == pytest.approx(0.01, rel=0.15)


def test_a_few_disturbed_cells_do_not_move_the_noise_floor():
    rows = repetitions(cells=20)
    for row in rows:
        if row["case"] in ("case1", "case2", "case3"):
            row["throughput"] *= random.Random(row["window_start_utc"]).uniform(0.3, 1)
    every = noise.floors(rows)[-1]
    assert every.noise < 0.016 and every.largest > 0.1
    assert every.interval.low <= every.noise <= every.interval.high


def test_each_workload_has_its_floor_and_the_round_has_one():
    assert [(each.workload, each.cells) for each in noise.floors(repetitions(cells=5))] == [
        ("bert", 3),
        ("resnet50", 2),
        ("", 5),
    ]
    assert len(noise.floors(repetitions(cells=1))) == 1
    assert noise.floors(repetitions(n=1)) == [] and noise.drifts(repetitions(n=1)) == []


def test_a_host_that_slows_down_is_found_with_its_slope():
    rows = repetitions(drift=-0.02)
    (found,) = noise.drifts(rows)
    assert found.slope == pytest.approx(-0.02, rel=0.2)
    assert found.change == pytest.approx(-0.02 * found.hours, rel=0.2)
    assert found.probability < 1e-6 and found.thirds < -0.03
    assert noise.drifted(found, noise.floors(rows)[-1])


def test_a_steady_host_is_said_to_drift_as_seldom_as_stated():
    false = [
        noise.drifts(repetitions(cells=8, n=5, seed=seed))[0].probability < 0.05
        for seed in range(200)
    ]
    assert sum(false) <= 20  # 10 are expected of 200; 21 in one of 1,000 tries


def test_drift_marks_only_cells_that_were_measured_at_other_times_than_those_beside_them():
    assert noise.displaced(repetitions(drift=-0.02)) == set()
    late = noise.displaced(repetitions(drift=-0.02, late="case3"))
    assert late == {("resnet50", "pytorch", "case3")}
    assert noise.displaced(repetitions(late="case3")) == set()  # late, but nothing drifts


def test_a_repetition_far_from_the_others_is_marked():
    assert outliers([10.0, 10.1, 9.9, 10.05, 7.0]) == ["", "", "", "", "low"]
    assert outliers([10.0, 10.1, 9.9, 10.05, 14.0, 9.95]) == ["", "", "", "", "high", ""]
    assert outliers([10.0, 10.1, 9.9, 10.05, 10.2]) == [""] * 5


def test_of_three_or_four_repetitions_none_is_an_outlier():
    assert outliers([10.0, 10.1, 1.0]) == [""] * 3
    assert outliers([10.0, 10.1, 10.05, 1.0]) == [""] * 4


def test_equal_repetitions_leave_a_scale_to_judge_by():
    assert modified_z_scores([10] * 7 + [100])[-1] == pytest.approx(90 / (1.253314 * 11.25))
    assert outliers([10.0] * 7 + [100.0]) == [""] * 7 + ["high"]
    assert outliers([10.0] * 7) == [""] * 7
