"""Which timed processes are replayed: what a replay takes on a round's device."""

import pytest

from dlperf import plan
from dlperf.measure import bounds
from dlperf.plan.checked import unchecked
from dlperf.plan.settings import Checks


def cases(device: str, precision: str = "fp32", batch_size: int | str = 8, **workload):
    limit = {"memory_limit": workload.pop("memory_limit")} if "memory_limit" in workload else {}
    own = {"scenarios": ["train"], "image_size": 224, **workload}
    config = plan.load(
        {
            "round": "test",
            "device": device,
            "frameworks": ["pytorch", "tensorflow"],
            "workloads": {
                "resnet50": {
                    **own,
                    "precisions": [precision],
                    "batch_sizes": {precision: [batch_size]},
                }
            },
            "topologies": ["1n1d", "1n2d", "1n8d"],
            "repetitions": 1,
            "steps": {"warmup": 20, "measured": 120},
            **limit,
        }
    )
    return config, [case for case in plan.expand(config) if case.framework == "pytorch"]


def test_a_gpu_replays_what_two_cores_cannot():
    """256 images of 224 pixels in windows of 120 steps: hours on a CPU, on a GPU two minutes."""
    config, on_cpu = cases("cpu", batch_size=256)
    assert all("checks.seconds" in unchecked(config, case) for case in on_cpu)
    config, on_cards = cases("cuda", "amp", batch_size=256)
    reasons = {case.devices: unchecked(config, case) for case in on_cards}
    assert not reasons[1] and not reasons[2] and "checks.seconds" in reasons[8]


def test_a_gpu_computes_in_half_of_the_memory():
    _, (one, *_) = cases("cpu")
    assert bounds.cost(one, "cuda", 2)[1] == bounds.cost(one, "cpu", 2)[1] / 2


@pytest.mark.parametrize("image_size, kept", [(32, True), (224, False)])
def test_batches_of_an_own_reader_are_replayed_where_a_window_of_them_is_kept(image_size, kept):
    config, (case, *_) = cases("cuda", data=["imagenet"], image_size=image_size)
    reason = unchecked(config, case)
    assert not reason if kept else "keeps batches of 3 steps" in reason


def test_each_framework_has_batches_of_its_own_to_replay():
    _, (synthetic, *_) = cases("cpu")
    _, (own, *_) = cases("cpu", data=["imagenet"])
    ratio = bounds.cost(own, "cpu", 4)[0] / bounds.cost(synthetic, "cpu", 4)[0]
    assert ratio == 8  # frameworks that train ResNet-50


@pytest.mark.parametrize(
    "data, seconds, reason",
    [
        ("synthetic", 600, ""),
        ("synthetic", 0, "checks.seconds: 0"),
        ("imagenet", 600, "own reader"),
    ],
)
def test_a_size_that_is_searched_is_checked_when_it_is_found(data, seconds, reason):
    config, (case, *_) = cases("cuda", batch_size="max", data=[data])
    config = config.model_copy(update={"checks": Checks(seconds=seconds)})
    found = unchecked(config, case)
    assert case.searched and (reason in found if reason else not found)


@pytest.mark.parametrize("limit, reason", [("2 GB", ""), ("4 GB", "about 12.0 GB")])
def test_what_is_searched_within_much_memory_has_no_spot_run_on_a_cpu(limit, reason):
    config, (case, *_) = cases("cpu", batch_size="max", memory_limit=limit, image_size=32)
    found = unchecked(config, case)
    assert reason in found if reason else not found
