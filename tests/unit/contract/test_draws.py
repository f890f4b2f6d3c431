"""What is drawn: once, from the system's randomness, and repeatable."""

import dataclasses

import pytest

from dlperf.contract import draws
from dlperf.contract.layout import Layout
from dlperf.workloads.cases import parse_case


def draw(number=7) -> draws.Draw:
    return draws.Draw("g", f"{number:032x}")


def test_a_draw_is_made_once(tmp_path):
    path = tmp_path / "checks/draws/g.json"
    draws.write(path, "g")
    first = draws.read(path)
    draws.write(path, "g")
    assert draws.read(path) == first
    draws.write(tmp_path / "other.json", "g")
    assert draws.read(tmp_path / "other.json").number != first.number


@pytest.mark.parametrize("text", ["{}", '{"schema": "dlperf.draw/1", "number": 3}', "[]"])
def test_what_is_no_draw_is_refused(tmp_path, text):
    path = tmp_path / "draw.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"draw\.json: is no dlperf\.draw/1"):
        draws.read(path)


def test_repetitions_have_seeds_of_their_own_that_come_again():
    orders = [draw().repetition(number, 2, 5) for number in range(1, 50)]
    assert orders == [draw().repetition(number, 2, 5) for number in range(1, 50)]
    seeds = {each.seed for each in orders} | {each.windows[0].seed for each in orders}
    assert len(seeds) == 98
    assert all(0 <= each < 2**draws.BITS for each in seeds)
    assert all(not each.shown and each.steps == 7 for each in orders)
    assert draw(8).repetition(1, 2, 5) != orders[0]


def test_the_first_window_of_a_spot_run_is_as_a_repetitions_and_the_steps_of_the_other_vary():
    found = {tuple(w.steps for w in draw(n).spot_run(2, 6).windows) for n in range(100)}
    assert found == {(6, 1), (6, 2)}
    assert draw().spot_run(2, 6).shown
    assert draw().spot_run(2, 6, trains=False).windows == draw().spot_run(2, 6).windows[:1]


def test_a_group_is_of_cases_that_differ_in_framework_and_compiler_alone():
    one = parse_case("gpt/pytorch/train-fp32-1n2d-tp2-b4-synthetic")
    other = dataclasses.replace(one, framework="jax", compiler="xla")
    split = dataclasses.replace(one, layout=Layout())
    assert draws.group_of(one) == draws.group_of(other) != draws.group_of(split)
    assert draws.draw_of(one) == "checks/draws/gpt-train-fp32-1n2d-tp2-b4-synthetic.json"
    assert draws.spot_run_of(other).startswith("checks/gpt/jax/train-fp32-xla-1n2d-tp2")
