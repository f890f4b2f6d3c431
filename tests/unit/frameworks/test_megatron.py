"""What Megatron-LM cannot do is one sentence with how to fix it; what it can do is planned."""

import pytest
from conftest import ROOT

from dlperf import frameworks, plan, workloads
from dlperf.plan import expand

#: A layout on eight devices -> why it is unsupported, "" if it is not.
LAYOUTS = (
    ({}, ""),
    ({"tensor_parallel": 4, "accumulation": 2}, ""),
    ({"pipeline_parallel": 2, "accumulation": 4, "activation_checkpointing": True}, ""),
    ({"tensor_parallel": 2, "pipeline_parallel": 2, "accumulation": 2}, ""),
    ({"zero_stage": 1}, ""),
    ({"zero_stage": 1, "tensor_parallel": 2, "pipeline_parallel": 2, "accumulation": 2}, ""),
    (
        {"zero_stage": 2},
        "Megatron-LM's distributed optimizer is ZeRO's stage 1, not 2: ask for 1",
    ),
    (
        {"zero_stage": 3, "tensor_parallel": 2},
        "Megatron-LM's distributed optimizer is ZeRO's stage 1, not 3: ask for 1",
    ),
    ({"tensor_parallel": 8}, "tensor_parallel: 8 does not divide 12 heads"),
    ({"pipeline_parallel": 8, "accumulation": 8}, "pipeline_parallel: 8 does not divide 12 layers"),
)


def planned(device, **section):
    config = {
        "round": "split",
        "device": device,
        "frameworks": ["megatron"],
        "workloads": {"gpt": {"precisions": ["fp32"], "batch_sizes": {"fp32": [4]}, **section}},
        "topologies": ["1n8d"],
        "repetitions": 3,
    }
    return list(expand(plan.load(config)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("layout", "reason"), LAYOUTS)
def test_a_layout_is_planned_or_refused_with_the_reason(layout, reason, device):
    (case,) = planned(device, layouts=[layout])
    assert case.unsupported == reason


def test_float16_is_for_gpus():
    precisions = {"precisions": ["amp_fp16"], "batch_sizes": {"amp_fp16": [4]}}
    assert planned("cuda", **precisions)[0].unsupported == ""
    reason = "Megatron-LM has no mixed precision with float16 on a CPU"
    assert planned("cpu", **precisions)[0].unsupported == reason


def test_it_has_gpt_alone():
    assert [name for name in workloads.NAMES if workloads.implements(name, "megatron")] == ["gpt"]


def test_the_published_matrix_has_each_case_of_megatron_lm_once():
    config = plan.load(ROOT / "config/rounds/dlperf-v1-gpt.yaml")
    cases = [case for case in expand(config) if case.framework == "megatron"]
    assert not any(case.unsupported for case in cases)
    splits = [
        (case.devices, case.layout.tensor_parallel, case.layout.pipeline_parallel) for case in cases
    ]
    data_parallel = [(devices, 1, 1) for devices in (1, 8, 16, 32)]
    tensor_parallel = [(1, 1, 1), (8, 8, 1), (16, 16, 1), (32, 32, 1)]
    both = [(8, 2, 1), (8, 4, 1), (16, 8, 1), (32, 8, 1)]
    pipelines = [(32, 1, 4), (32, 8, 4), (32, 4, 4), (32, 8, 2)]
    assert sorted(splits) == sorted(data_parallel + tensor_parallel + both + pipelines)


def test_it_sets_the_order_of_queues_where_tensors_are_split_on_gpus():
    from gpu_runs import a_run

    from dlperf.contract.layout import Layout
    from dlperf.frameworks.megatron import process

    def connections(**changes):
        return process.environment(a_run("megatron", workload="gpt", ranks=2, **changes)).get(
            "CUDA_DEVICE_MAX_CONNECTIONS"
        )

    assert connections(layout=Layout(tensor_parallel=2)) == "1"
    assert connections() is connections(layout=Layout(tensor_parallel=2), device="cpu") is None
    assert frameworks.of("megatron").title == "Megatron-LM"
