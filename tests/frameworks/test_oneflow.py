"""OneFlow: libraries from its interpreter's own folder, what its graph can do, Adam of rows."""

import dataclasses
import json

import in_framework
import pytest

from dlperf import frameworks
from dlperf.contract.layout import Layout
from dlperf.frameworks import oneflow
from dlperf.frameworks.oneflow import process

ONE_STEP = dataclasses.asdict(Layout())


def test_library_path_has_the_interpreters_nvidia_folders_first(tmp_path, monkeypatch):
    packages = tmp_path / "lib" / "python3.10" / "site-packages" / "nvidia"
    for name in ("cudnn", "cublas"):
        (packages / name / "lib").mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/own")
    path = process.library_path(str(tmp_path / "bin" / "python"))
    assert path.split(":") == [
        str(packages / "cublas" / "lib"),
        str(packages / "cudnn" / "lib"),
        "/opt/own",
    ]


def test_amp_needs_a_gpu_and_a_graph():
    case = {"precision": "amp", "compiler": "graph", "device": "cuda", "scenario": "train"}
    case["layout"] = ONE_STEP
    assert not oneflow.unsupported(case)
    assert "CPU" in oneflow.unsupported(dict(case, device="cpu"))
    assert "graph" in oneflow.unsupported(dict(case, compiler="none"))


def test_what_a_graph_cannot_clip_on_a_cpu_it_still_infers():
    case = {"precision": "fp32", "compiler": "graph", "device": "cpu", "clip": 1}
    case.update(scenario="train", layout=ONE_STEP)
    assert "clips" in oneflow.unsupported(case)
    assert not oneflow.unsupported(dict(case, scenario="infer"))


@pytest.mark.parametrize(
    "workload, reason", [("electra", "decay"), ("electra_squad", "layer to layer")]
)
def test_what_its_graph_cannot_train_is_eager(workload, reason):
    case = {"workload": workload, "precision": "fp32", "compiler": "graph", "device": "cpu"}
    case.update(framework="oneflow", scenario="train", layout=ONE_STEP)
    case.update(nodes=1, devices_per_node=1)
    assert reason in frameworks.unsupported(case)
    assert not frameworks.unsupported(dict(case, compiler="none"))
    graph_infers = not frameworks.unsupported(dict(case, scenario="infer"))
    assert graph_infers == (workload != "electra")


def test_what_is_evaluated_while_it_trains_is_eager():
    case = {"precision": "fp32", "compiler": "graph", "device": "cpu", "layout": ONE_STEP}
    assert "evaluated" in oneflow.unsupported(dict(case, scenario="quality"))
    assert not oneflow.unsupported(dict(case, scenario="train"))
    assert not oneflow.unsupported(dict(case, scenario="quality", compiler="none"))


TABLE = """
import oneflow as flow
from dlperf.frameworks.oneflow import sparse

table = sparse.Table(5, 3, True)
table.weight.data.fill_(1.0)
dense = flow.nn.Parameter(flow.zeros(2))
adam = sparse.Adam(run, [dense], [table], lr=0.5, betas=(0.9, 0.999), eps=1e-7)
weights = []
for ids in ([[1, 3], [3, 3]], [[3, 0]]):
    table(flow.tensor(ids)).sum().backward()
    adam.step()
    weights.append(table.weight.numpy().tolist())
    moments = [each.numpy()[:, 0].tolist() for each in adam.tables[0][1:]]
print(json.dumps([weights, moments]))
"""


def test_a_step_moves_the_rows_of_its_batch_by_the_sum_of_what_each_place_gave(environments):
    run = in_framework.rank("oneflow", "wide_deep")
    found = json.loads(in_framework.printed(run, TABLE, environments / "oneflow.cpu"))
    (one, two), (first, second) = found
    assert [row != [1.0] * 3 for row in one] == [False, True, False, True, False]
    assert [before != after for before, after in zip(one, two, strict=True)] == [
        *(True, False, False, True, False)
    ]
    # row 3: a gradient of 3 in the first step, of 1 in the second; row 0: of 1 in the second
    assert first == pytest.approx([0.1, 0.1, 0.0, 0.9 * 0.3 + 0.1, 0.0], rel=1e-6)
    assert second == pytest.approx([0.001, 0.001, 0.0, 0.999 * 0.009 + 0.001, 0.0], rel=1e-4)


RATES = """
import oneflow as flow
from dlperf.frameworks.oneflow import sparse

adam = sparse.Adam(run, [flow.nn.Parameter(flow.zeros(2))], [], 1e-3, (0.9, 0.999), 1e-7)
conf = flow.core.job.learning_rate_schedule_conf_pb2.LearningRateDecayConf()
options = adam.graph_options()
options["lr_sch"]._generate_conf_for_graph(conf)
table = conf.piecewise_constant_conf
print(json.dumps([list(table.boundaries), list(table.values), adam.lr, options["is_sparse"]]))
"""


def test_a_graphs_table_of_rates_holds_both_corrections_until_they_are_none(environments):
    run = in_framework.rank("oneflow", "wide_deep", compiler="graph")
    found = json.loads(in_framework.printed(run, RATES, environments / "oneflow.cpu"))
    boundaries, values, rate, is_sparse = found
    assert boundaries == list(range(len(values) - 1)), "a value for each step, and one behind them"
    assert values[0] == pytest.approx(rate * 0.001**0.5 / 0.1, rel=1e-4)
    assert values[99] == pytest.approx(rate * (1 - 0.999**100) ** 0.5 / (1 - 0.9**100), rel=1e-4)
    assert values[-1] == rate
    assert 0 < rate - values[-2] < 2**-26 * rate
    assert not is_sparse
