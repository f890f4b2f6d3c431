"""A training begins anew, with its weights written first, and a schedule with its first rate."""

from types import SimpleNamespace

from dlperf.contract.work import Work, restartable, scheduled


def work(asked: list) -> Work:
    weights = SimpleNamespace(
        write=lambda arrays: asked.append(arrays),
        write_statistics=lambda arrays: asked.append(arrays),
    )
    made = {"step": lambda: asked.append("step"), "wait": None, "loss": None, "parameters": 1}
    return Work(**made, batches=None, parity={}, weights=weights)


def test_weights_and_statistics_are_there_before_what_is_made_of_them():
    """Such as float32 copies of narrow weights."""
    asked = []
    restartable(work(asked), lambda: asked.append("forget"), {"mean": 0}).restart({"kernel": 1})
    assert asked == [{"kernel": 1}, {"mean": 0}, "forget"]


def test_statistics_are_not_written_where_a_model_has_none():
    asked = []
    restartable(work(asked), lambda: asked.append("forget"), {}).restart({"kernel": 1})
    assert asked == [{"kernel": 1}, "forget"]


def test_a_schedule_begins_with_its_first_rate_and_ends_with_its_last():
    asked = []
    made = restartable(work([]), lambda: asked.append("forget"), {})
    made = scheduled(made, [0.1, 0.2], asked.append, evaluate=None)
    for _ in range(3):
        made.step()
    made.restart({})
    made.step()
    assert asked == [0.1, 0.2, 0.2, "forget", 0.1]
