"""Tables with sparse gradients: ids on their way between ranks, and what is refused."""

import dataclasses
import json

import in_framework
import pytest
from conftest import CPU_FRAMEWORKS, some_of

from dlperf import frameworks
from dlperf.contract.layout import Layout

#: The layout of a case whose model is not split.
WHOLE = dataclasses.asdict(Layout())

EXCHANGED = """
from types import SimpleNamespace
import mxnet as mx
from dlperf.frameworks.mxnet import sparse

trainer = SimpleNamespace(_kvstore=mx.kv.create("local"), _params=[])
ids = mx.nd.array([5, 2**24 + 1, 2**31 - 2, 2**24 + 1], dtype="int32")
rows = mx.nd.arange(8).reshape((4, 2))
table = SimpleNamespace(shape=(2**31 - 1, 2), dtype="float32")
exchange = sparse.Exchange(run, trainer, 0, 4, table)
found = [exchange(ids, rows) for _ in range(2)][1]
print(json.dumps([each.asnumpy().tolist() for each in (*found, *sparse.summed(*found))]))
"""

BY_ROWS = """
import hashlib
from dlperf.contract import tensor, work

def digest(array):
    found = hashlib.sha256()
    for _, _, rows in work.parts(array):
        found.update(rows.tobytes())
    return found.hexdigest()

WHOLE, BY_ROWS = 1 << 30, 1000
frameworks.load(run.framework).start(run)
weights = workloads.load(run.workload, run.framework).training(run).weights
found = []
for tensor.LARGE_ROWS in (WHOLE, BY_ROWS):
    initial = workloads.Initial(run.workload, run.dimensions, run.seed)
    weights.write(initial)
    given = {name: digest(initial[name]) for name in initial}
    for tensor.LARGE_ROWS in (WHOLE, BY_ROWS):
        found.append({name: digest(array) for name, array in weights.read()} == given)
        tables = [isinstance(array, work.Table) for _, array in weights.read()]
        # MindSpore's arrays are its own memory: nothing is copied
        own = run.framework == "mindspore"
        found.append(own or any(tables) == (tensor.LARGE_ROWS == BY_ROWS))
print("by rows:", found)
import os
sys.stdout.flush()
os._exit(0)  # some hang in their own exit handlers
"""


@pytest.mark.parametrize("framework", some_of(CPU_FRAMEWORKS, "mxnet", "mindspore"))
def test_a_large_table_is_written_and_read_by_rows_as_if_it_were_whole(framework, environments):
    sizes = {"vocabulary": 70_001, "width": 4, "layers": 1, "adam": "lazy"}
    sizes["tables"] = "replicated"
    run = in_framework.rank(framework, "wide_deep", dimensions=sizes)
    text = in_framework.printed(run, BY_ROWS, environments / f"{framework}.cpu")
    assert f"by rows: {[True] * 8}" in text


def test_ids_beyond_float32_pass_mxnets_store_unchanged(environments):
    run = in_framework.rank("mxnet", "wide_deep")
    ids, rows, sorted_ids, sums = json.loads(
        in_framework.printed(run, EXCHANGED, environments / "mxnet.cpu")
    )
    assert ids == [5, 2**24 + 1, 2**31 - 2, 2**24 + 1]
    assert rows == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert sorted_ids == [5, 2**24 + 1, 2**24 + 1, 2**31 - 2]
    assert sums == [[0, 1], [8, 10], [8, 10], [4, 5]]


@pytest.mark.parametrize("framework, reason", [("mxnet", "overflow"), ("paddlepaddle", "narrows")])
def test_mixed_precision_on_a_gpu_is_refused_for_lazy_tables_alone(framework, reason):
    case = {
        "workload": "wide_deep",
        "layout": WHOLE,
        "framework": framework,
        "device": "cuda",
        "precision": "amp",
        "compiler": "static",
        "vocabulary": 260_000,
        "width": 16,
        "adam": "lazy",
    }
    assert reason in frameworks.unsupported(case)
    assert not frameworks.unsupported(dict(case, adam="dense"))
    assert not frameworks.unsupported(dict(case, precision="fp32"))


def test_tables_of_more_numbers_than_mxnet_counts_are_refused():
    case = {"workload": "wide_deep", "device": "cpu", "precision": "fp32", "framework": "mxnet"}
    case.update(compiler="static", adam="lazy", width=16, vocabulary=2**27, layout=WHOLE)
    assert "32 bits" in frameworks.unsupported(case)
    assert not frameworks.unsupported(dict(case, vocabulary=2**27 - 1))


@pytest.mark.parametrize("framework", CPU_FRAMEWORKS)
def test_every_framework_shards_tables(framework):
    compiler = frameworks.of(framework).default_compiler["cpu"]
    case = {"workload": "wide_deep", "device": "cpu", "precision": "fp32", "framework": framework}
    case.update(compiler=compiler, adam="lazy", width=16, vocabulary=260_000, scenario="train")
    case["layout"] = WHOLE
    for tables in ("sharded", "replicated"):
        assert not frameworks.unsupported(dict(case, tables=tables))


def test_xla_in_tensorflow_compiles_no_sharded_tables():
    case = {"workload": "wide_deep", "device": "cuda", "precision": "fp32", "compiler": "xla"}
    case.update(framework="tensorflow", tables="sharded", adam="lazy", width=16, vocabulary=2600)
    case["layout"] = WHOLE
    assert "no collectives" in frameworks.unsupported(case)
    assert not frameworks.unsupported(dict(case, compiler="none"))
