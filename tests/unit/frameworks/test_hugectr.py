"""HugeCTR's page on a stub: calls as its source has them, the model, its files, one rank a node.

Nothing here shows that HugeCTR itself trains so: that takes a GPU and a certificate.
"""

import ctypes
import dataclasses
import importlib
import json
import sys
import time
import types

import numpy as np
import pytest
import stub_hugectr
from gpu_runs import a_run

from dlperf import frameworks, plan, workloads
from dlperf.certify import __main__ as certify
from dlperf.certify import judge
from dlperf.certify.required import Subject
from dlperf.contract import tensor
from dlperf.contract.dimension import Dimensions
from dlperf.contract.layout import Layout, Proved
from dlperf.contract.run import POOL, Unsupported
from dlperf.contract.work import table as table_of
from dlperf.frameworks.hugectr import formats, process
from dlperf.scenarios import early_return, train
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep import input as clicks

PAGE = "dlperf.workloads.wide_deep.hugectr"
SMALL = {"vocabulary": 260, "width": 4, "layers": 2}


def asked(devices=1, **changes):
    """A node's run of a small model on so many GPUs."""
    own = {name: changes.pop(name) for name in list(changes) if name in facts.DIMENSIONS}
    values = dict(
        workload="wide_deep",
        dimensions=dict(Dimensions(facts.DIMENSIONS, {**SMALL, **own})),
        devices=devices,
        gpus=[str(each) for each in range(devices)],
        cores=[0, 1, 2],
    )
    return a_run("hugectr", **{**values, **changes})


class Cuda:
    """A stand-in for CUDA's runtime: what was asked of it."""

    def __init__(self, count=1, taken=(5,), fails=""):
        self.calls, self._count, self._taken, self._fails = [], count, taken, fails

    def __getattr__(self, name):
        def function(*arguments):
            self.calls.append((name, *(each for each in arguments if isinstance(each, int))))
            if name == self._fails:
                return 700
            if name == "cudaGetDeviceCount":
                arguments[0]._obj.value = self._count
            if name == "cudaMemGetInfo":
                device = [each[1] for each in self.calls if each[0] == "cudaSetDevice"][-1]
                arguments[0]._obj.value = 80 - self._taken[device]
                arguments[1]._obj.value = 80
            return 0

        return function


@pytest.fixture
def cuda(monkeypatch):
    found = Cuda(count=2, taken=(5, 7))
    monkeypatch.setattr(process, "runtime", lambda: found)
    return found


@pytest.fixture
def insert(monkeypatch, cuda):
    """A function that puts the stub of a version in place, and returns it and the page."""
    mpi = types.SimpleNamespace(Get_rank=lambda: 0, Get_size=lambda: 1)
    monkeypatch.setitem(
        sys.modules,
        "mpi4py",
        types.SimpleNamespace(MPI=types.SimpleNamespace(COMM_WORLD=mpi)),
    )

    def put(version="23.9.0"):
        stub = stub_hugectr.module(version)
        monkeypatch.setitem(sys.modules, "hugectr", stub)
        forget()
        return stub, importlib.import_module(PAGE)

    yield put
    forget()


def forget():
    """Modules that have imported a stub are imported anew by who asks next."""
    for name in (PAGE, "dlperf.frameworks.hugectr.training"):
        sys.modules.pop(name, None)
        package, _, own = name.rpartition(".")
        vars(importlib.import_module(package)).pop(own, None)


def called(stub, name):
    return [arguments for each, arguments in stub.calls if each == name]


def initial(run):
    return workloads.Initial("wide_deep", run.dimensions, run.seed)


# The page


@pytest.mark.parametrize("layers, width", [(2, 4), (7, 16), (1, 1)])
def test_its_model_has_the_shapes_of_the_facts(insert, layers, width):
    run = asked(layers=layers, width=width)
    stub, page = insert()
    work = page.training(run)
    work.batches.close()
    assert work.parameters == workloads.parameter_count("wide_deep", run.dimensions)
    work.weights.write(initial(run))
    shapes = {name: array.shape for name, array in work.weights.read()}
    assert shapes == tensor.shapes(facts.parameters(run.dimensions))
    outputs = [each.get("num_output") for each in called(stub, "DenseLayer")]
    assert [each for each in outputs if each] == [facts.UNITS] * layers + [1]


@pytest.mark.parametrize("devices", [1, 2])
def test_the_layers_compute_wide_and_deep_on_the_batches_of_the_other_frameworks(
    insert, monkeypatch, devices
):
    monkeypatch.setattr(facts, "DROPOUT", 0.0)
    run = asked(devices, batch_size=4)
    _, page = insert()
    work = page.training(run)
    start = {name: array.astype("f8") for name, array in initial(run).items()}
    work.weights.write(initial(run))
    handle = work.step()
    parts = [clicks.open_batches(run.input._replace(part=part)).next() for part in range(devices)]
    expected = np.mean([loss_of(start, batch) for batch in parts])
    assert work.loss(handle) == pytest.approx(expected, rel=1e-6)
    assert work.batches.first_batch_sha256 == clicks.open_batches(run.input).first_batch_sha256
    work.batches.close()


def loss_of(weights, batch):
    x = np.concatenate([weights["deep_embedding"][batch.deep].reshape(len(batch.deep), -1),
                        batch.numbers], 1)  # fmt: skip
    for layer in range(SMALL["layers"]):
        name = f"hidden{layer}"
        x = np.maximum(x @ weights[name + ".weight"].T + weights[name + ".bias"], 0)
    logit = (x @ weights["output.weight"].T + weights["output.bias"])[:, 0]
    logit += weights["wide_embedding"][batch.wide].sum((1, 2))
    return np.mean(np.logaddexp(0, logit) - batch.labels * logit)


def test_weights_come_back_as_they_were_written(insert):
    run = asked(2)
    _, page = insert()
    work = page.training(run)
    work.batches.close()
    work.weights.write(initial(run))
    assert work.weights_in_files
    found = dict(work.weights.read())
    for name, array in initial(run).items():
        np.testing.assert_array_equal(found[name], array)


def test_dropout_is_as_the_facts_have_it_and_left_out_where_it_is_off(insert, monkeypatch):
    for rate, expected in ((0.5, [0.5, 0.5]), (1 - 2.0**-24, [1 - 2.0**-24] * 2), (0.0, [])):
        monkeypatch.setattr(facts, "DROPOUT", rate)
        stub, page = insert()
        page.training(asked()).batches.close()
        rates = [each.get("dropout_rate") for each in called(stub, "DenseLayer")]
        assert [each for each in rates if each] == expected


@pytest.mark.parametrize("adam, update", [("lazy", "Local"), ("dense", "Global")])
def test_adam_is_of_touched_rows_or_of_all_as_the_case_asks(insert, adam, update):
    stub, page = insert()
    page.training(asked(adam=adam)).batches.close()
    (optimizer,) = called(stub, "CreateOptimizer")
    assert optimizer.pop("optimizer_type").name == "Adam"
    assert optimizer.pop("update_type").name == update
    assert optimizer == {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
    assert called(stub, "set_learning_rate") == [{"lr": 1e-3}]


@pytest.mark.parametrize(
    "precision, mixed, tf32, scaler",
    [("fp32", False, False, 1.0), ("tf32", False, True, 1.0), ("amp", True, False, 1024.0)],
)
def test_the_solver_has_the_cases_batch_gpus_and_precision(insert, precision, mixed, tf32, scaler):
    stub, page = insert()
    work = page.training(asked(2, batch_size=8, precision=precision))
    work.batches.close()
    (solver,) = called(stub, "CreateSolver")
    assert (solver["batchsize"], solver["vvgpu"]) == (16, [[0, 1]])
    assert solver["use_mixed_precision"] is mixed
    assert solver["enable_tf32_compute"] is tf32
    assert solver["scaler"] == scaler
    assert solver["i64_input_key"] is solver["repeat_dataset"] is True
    assert work.parity["compute_dtype"] == ("float16" if mixed else "float32")
    told = {**work.parity, **work.batches.parity, **process.parity(asked(2))}
    assert all(each is None or isinstance(each, (str, int, float)) for each in told.values())


def test_a_certificate_scales_no_loss(insert):
    stub, page = insert()
    page.training(asked(precision="amp", loss_scale=1.0)).batches.close()
    assert called(stub, "CreateSolver")[0]["scaler"] == 1.0


def test_all_nodes_gpus_are_in_the_solver(insert):
    stub, page = insert()
    run = asked(4, ranks=2, batch_size=8)
    assert run.global_batch_size == 64
    page.training(run).batches.close()
    (solver,) = called(stub, "CreateSolver")
    assert (solver["batchsize"], solver["vvgpu"]) == (64, [[0, 1, 2, 3]] * 2)


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_the_rows_are_held_in_all_and_not_on_each_gpu(insert, devices):
    rows = 3_200_000
    run = asked(devices, vocabulary=rows, width=16, batch_size=2)
    _, page = insert()
    work = page.training(run)
    work.batches.close()
    deep, wide = (work.parity[f"rows_held_{each}_embedding"] for each in ("deep", "wide"))
    spare = devices * 2**20 // 4  # a MB on each, as sizes are whole ones
    assert rows <= deep <= rows + spare // (3 * 16) + devices
    assert rows <= wide <= rows + spare // 3 + devices


def test_a_step_waits_for_nothing_and_the_end_for_each_gpu(insert, cuda):
    stub, page = insert()
    work = page.training(asked(2, batch_size=2))
    work.weights.write(initial(asked(2)))
    cuda.calls.clear()
    stub.calls.clear()
    handles = [work.step() for _ in range(3)]
    assert [name for name, _ in stub.calls] == ["train"] * 3
    assert cuda.calls == []
    work.wait()
    waited = [("cudaSetDevice", 0), ("cudaDeviceSynchronize",)]
    assert cuda.calls[:4] == [*waited, ("cudaSetDevice", 1), ("cudaDeviceSynchronize",)]
    losses = [work.loss(handle) for handle in handles]
    work.batches.close()
    assert losses[:2] == [None, None]
    assert losses[2] > 0


def test_a_window_has_the_loss_that_is_left_and_reads_no_files_at_its_end(insert, monkeypatch):
    monkeypatch.setattr(early_return, "LATE_SECONDS", 60)  # the stub takes long to compute a loss
    run = asked(batch_size=2)
    stub, page = insert()
    work = page.training(run)
    work.weights.write(initial(run))

    class Stopwatch:
        steps = run.measured_steps
        open = ended = close = mark = lambda self: None
        taken = staticmethod(lambda: early_return.Taken(time.process_time(), 0.0))
        window = staticmethod(lambda *ends: ends)

    found = train.window(run, work, Stopwatch())
    work.batches.close()
    assert len(found["loss"]) == 1
    assert not called(stub, "save_params_to_files")


def test_a_failure_of_the_gpu_ends_the_wait(monkeypatch):
    monkeypatch.setattr(process, "runtime", lambda: Cuda(fails="cudaDeviceSynchronize"))
    with pytest.raises(RuntimeError, match="cudaDeviceSynchronize failed with CUDA's error 700"):
        process.synchronize(asked())


def test_the_stub_refuses_what_hugectrs_source_has_not(insert):
    stub, _ = insert()
    for wrong in (
        lambda: stub.CreateSolver(batch_size=8, vvgpu=[[0]]),
        lambda: stub.CreateSolver(batchsize=8.5, vvgpu=[[0]]),
        lambda: stub.CreateSolver(batchsize=9, vvgpu=[[0, 1]]),
        lambda: stub.DataReaderSparseParam("wide", 1, True),
        lambda: stub.DenseLayer(stub.Layer_t.Dropout, ["x"], ["y"], dropout_rate=0.0),
        lambda: stub.CreateOptimizer(optimizer_type=stub.Update_t.Local),
    ):
        with pytest.raises(stub_hugectr.StubError):
            wrong()


# Its process


def test_a_node_starts_where_its_gpus_and_mpi_are_as_the_run_says(insert, cuda):
    insert()
    process.start(asked(2))
    with pytest.raises(Unsupported, match="HugeCTR sees 2 of the node's 4 GPUs"):
        process.start(asked(4))
    with pytest.raises(Unsupported, match=r"rank 0 of 1, not as node 1 of 2: .* --mpi=pmix"):
        process.start(asked(2, rank=1, ranks=2))


def test_a_machine_without_cuda_is_said_to_be_one(insert, monkeypatch):
    insert()
    for runtime in (None, Cuda(count=0), Cuda(fails="cudaGetDeviceCount")):
        monkeypatch.setattr(process, "runtime", lambda runtime=runtime: runtime)
        with pytest.raises(Unsupported, match="HugeCTR"):
            process.start(asked())


def test_the_memory_is_that_of_the_fullest_card(cuda):
    assert process.memory(asked(2))["device_total_peak_bytes"] == 7


def test_it_says_what_it_had(insert):
    insert()
    found = process.parity(asked(2))
    assert found["framework_version"] == "23.9.0"
    assert (found["devices_per_process"], found["collective"]) == (2, "NCCL, one process a node")


def test_tf32_is_off_for_all_libraries_unless_the_precision_has_it():
    assert process.environment(asked())["NVIDIA_TF32_OVERRIDE"] == "0"
    assert "NVIDIA_TF32_OVERRIDE" not in process.environment(asked(precision="tf32"))


CASE = {
    **{"workload": "wide_deep", "device": "cuda", "scenario": "train", "precision": "fp32"},
    **{"nodes": 1, "devices_per_node": 8, "adam": "lazy", "tables": "sharded"},
}


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({}, ""),
        ({"precision": "amp"}, ""),
        ({"precision": "amp_fp16"}, ""),
        ({"precision": "amp_bf16"}, "HugeCTR has no mixed precision with bfloat16 on a GPU"),
        ({"device": "cpu"}, "HugeCTR trains on GPUs alone: ask for device cuda"),
        ({"scenario": "infer"}, "training throughput alone, the scenario train"),
        ({"scenario": "quality"}, "training throughput alone, the scenario train"),
        ({"tables": "replicated"}, "over all devices: ask for `tables: sharded`"),
        ({"tables": "replicated", "devices_per_node": 1, "nodes": 2}, "ask for `tables: sharded`"),
        ({"tables": "replicated", "devices_per_node": 1}, ""),
        ({"tables": "replicated", "adam": "dense"}, ""),
    ],
)
def test_what_it_cannot_is_said_with_the_reason(changes, reason):
    found = frameworks.unsupported(
        {**CASE, "framework": "hugectr", "layout": dataclasses.asdict(Layout()), **changes}
    )
    assert reason in found
    assert bool(reason) == bool(found)


# Its files


def some(size, seed=1):
    random = np.random.RandomState(seed)
    batch = clicks.empty(size)
    batch.numbers[...] = random.random_sample(batch.numbers.shape)
    for ids in (batch.wide, batch.deep):
        ids[...] = random.randint(0, 2**31 - 1, ids.shape)
    batch.labels[...] = random.randint(0, 2, size)
    return batch


def test_norm_is_a_header_and_samples_of_a_label_numbers_and_keys_one_a_slot(tmp_path):
    batches = [some(3), some(5, seed=2)]
    writer = formats.Norm(tmp_path / "0.norm")
    for batch in batches:
        writer.write(batch)
    writer.close()
    content = (tmp_path / "0.norm").read_bytes()
    assert np.frombuffer(content[:64], "<i8").tolist() == [0, 8, 1, 13, 28, 0, 0, 0]
    assert len(content) == 64 + 8 * (4 + 13 * 4 + 28 * (4 + 8))
    labels, numbers, keys = formats.read_norm(tmp_path / "0.norm")
    np.testing.assert_array_equal(labels, np.concatenate([each.labels for each in batches]))
    np.testing.assert_array_equal(numbers, np.concatenate([each.numbers for each in batches]))
    np.testing.assert_array_equal(keys[:, :2], np.concatenate([each.wide for each in batches]))
    np.testing.assert_array_equal(keys[:, 2:], np.concatenate([each.deep for each in batches]))
    (tmp_path / "cut.norm").write_bytes(content[:-392])
    with pytest.raises(ValueError, match="not a whole file of 8 samples"):
        formats.read_norm(tmp_path / "cut.norm")


def test_the_list_of_files_begins_with_their_number(tmp_path):
    path = formats.write_list(str(tmp_path), ["0.norm", "0.norm"])
    own = f"{tmp_path}/0.norm"
    assert open(path).read() == f"2\n{own}\n{own}\n"


def test_parquets_metadata_says_which_column_is_what(tmp_path):
    formats.write_metadata(str(tmp_path), {"0.parquet": 40}, 13, 28)
    found = json.loads((tmp_path / "_metadata.json").read_text())
    assert found["file_stats"] == [{"file_name": "0.parquet", "num_rows": 40}]
    assert found["labels"] == [{"col_name": "label", "index": 0}]
    assert [each["index"] for each in found["conts"]] == list(range(1, 14))
    assert found["cats"][0] == {"col_name": "C1", "index": 14}
    assert found["cats"][27] == {"col_name": "C28", "index": 41}


def test_dense_weights_are_kernels_of_inputs_by_outputs_and_biases(tmp_path):
    shapes = {"a.weight": (2, 3), "a.bias": (2,), "b.weight": (1, 2), "b.bias": (1,)}
    arrays = {name: np.random.random_sample(shape).astype("f4") for name, shape in shapes.items()}
    formats.write_dense(tmp_path / "dense", arrays.values())
    flat = np.fromfile(tmp_path / "dense", "<f4")
    assert flat[:6].tolist() == arrays["a.weight"].T.reshape(-1).tolist()
    assert flat[6:8].tolist() == arrays["a.bias"].tolist()
    for name, array in formats.read_dense(tmp_path / "dense", shapes):
        np.testing.assert_array_equal(array, arrays[name])
    with pytest.raises(ValueError, match="11 numbers: it is of another model"):
        dict(formats.read_dense(tmp_path / "dense", {"a.weight": (2, 3)}))


def test_a_table_is_keys_and_rows_in_any_order_each_once(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "ROWS", 7)  # parts of it
    table = np.random.random_sample((20, 3)).astype("f4")
    formats.write_table(tmp_path / "table", table)
    np.testing.assert_array_equal(formats.read_table(tmp_path / "table", table.shape), table)
    by_rows = table_of(table.shape, lambda first, last: table[first:last], 8)
    formats.write_table(tmp_path / "by rows", by_rows)
    np.testing.assert_array_equal(formats.read_table(tmp_path / "by rows", table.shape), table)
    order = np.random.permutation(20)
    order.astype("<i8").tofile(tmp_path / "table/key")
    table[order].tofile(tmp_path / "table/emb_vector")
    np.testing.assert_array_equal(formats.read_table(tmp_path / "table", table.shape), table)
    order[0] = order[1]
    order.astype("<i8").tofile(tmp_path / "table/key")
    with pytest.raises(ValueError, match="20 rows of 3 numbers, not each of 20 once"):
        formats.read_table(tmp_path / "table", table.shape)


def test_a_sample_is_written_in_its_order_a_file_for_each_thread_of_the_reader(
    insert, clicks_folder
):
    run = asked(
        2, data="sample", data_dir=str(clicks_folder), vocabulary=15_600, batch_size=4,
        warmup_steps=1, measured_steps=4,
    )  # fmt: skip
    stub, page = insert()
    work = page.training(run)
    work.weights.write(initial(run))
    (reader,) = called(stub, "DataReaderParams")
    assert reader["num_workers"] == 3  # as many as it has cores
    reader = types.SimpleNamespace(**reader)
    parts = [clicks.open_batches(run.input._replace(part=part), "", 1) for part in range(2)]
    for number in range(run.steps):
        read = stub_hugectr.norm_batch(reader, 8, number)
        labels, numbers, keys = formats.columns(joined([part.next() for part in parts]))
        np.testing.assert_array_equal([dense[0] for dense, _ in read], labels)
        np.testing.assert_array_equal([dense[1:] for dense, _ in read], numbers)
        np.testing.assert_array_equal([[key for (key,) in each] for _, each in read], keys)
    assert work.batches.first_batch_sha256 == parts[0].first_batch_sha256 is not None
    for each in [*parts, work.batches]:
        each.close()


def joined(parts):
    return clicks.Batch(*(np.concatenate(each) for each in zip(*parts, strict=True)))


@pytest.fixture(scope="module")
def clicks_folder(tmp_path_factory):
    from dlperf.prepare import criteo, criteo_sample

    source, out = (tmp_path_factory.mktemp(name) for name in ("criteo", "clicks"))
    criteo_sample.make(source, rows=500)
    criteo.make(out, source, count=2, jobs=1)
    return out


def test_newer_versions_are_given_parquet(insert, monkeypatch):
    """pyarrow is in no environment here: a stand-in says what it was asked to write."""
    written = []

    class Writer:
        def __init__(self, path, schema):
            open(path, "w").close()

        def write_table(self, table, row_group_size):
            written.append((table, row_group_size))

        def close(self):
            written.append("closed")

    class Table(dict):
        schema = "schema"

    pyarrow = types.ModuleType("pyarrow")
    pyarrow.array = lambda values: values
    pyarrow.table = lambda arrays, names: Table(zip(names, arrays, strict=True))
    pyarrow.parquet = types.SimpleNamespace(ParquetWriter=Writer)
    monkeypatch.setitem(sys.modules, "pyarrow", pyarrow)
    stub, page = insert("24.6.0")
    work = page.training(asked(2, batch_size=4))
    (reader,) = called(stub, "DataReaderParams")
    assert (reader["data_reader_type"].name, reader["num_workers"]) == ("Parquet", 2)
    work.batches.close()
    *tables, closed, last = written
    assert (len(tables), closed, last) == (2 * POOL, "closed", "closed")
    first, size = tables[0]
    assert (size, len(tables[1][0]["label"])) == (4, 4)
    assert (first["label"].dtype, first["I13"].dtype) == (np.float32, np.float32)
    assert first["C28"].dtype == np.int64


# Ranks and devices


def test_a_rank_of_several_devices_takes_their_batches():
    run = asked(4, ranks=2, rank=1, batch_size=8, layout=Layout())
    assert (run.data_parallel, run.global_batch_size, run.replica) == (8, 64, 4)
    assert run.input.parts == 8


def test_the_frameworks_of_one_rank_a_device_are_the_others():
    there = [name for name in frameworks.NAMES if frameworks.find(name)]
    assert [name for name in there if frameworks.ranks_of_node(name, 8) != 8] == ["hugectr"]
    assert frameworks.ranks_of_node("hugectr", 8) == 1
    assert frameworks.ranks_of_node("flax", 8) == 8


def test_runtime_is_found_by_name_or_none(monkeypatch):
    process.runtime.cache_clear()
    monkeypatch.setattr(process, "RUNTIMES", ("libno-such-library.so",))
    assert process.runtime() is None
    process.runtime.cache_clear()
    monkeypatch.setattr(process, "RUNTIMES", ("libno-such-library.so", None))
    assert isinstance(process.runtime(), ctypes.CDLL)
    process.runtime.cache_clear()


# What is planned, and proved

ROUND = {
    "round": "clicks",
    "device": "cuda",
    "frameworks": ["hugectr", "pytorch"],
    "workloads": {
        "wide_deep": {
            "precisions": ["fp32"],
            "batch_sizes": {"fp32": [2048]},
            "data": ["synthetic"],
            "also": [{"tables": ["sharded"], "topologies": ["1n8d"]}],
        }
    },
    "topologies": ["1n1d"],
}


def planned(**changes):
    return [
        case for case in plan.expand(plan.load({**ROUND, **changes})) if case.framework == "hugectr"
    ]


def test_a_plan_has_it_on_gpus_and_says_why_it_is_not_elsewhere():
    one, eight = planned()
    assert (one.unsupported, eight.unsupported) == ("", "")
    assert (eight.name, eight.global_batch_size) == (
        "train-fp32-1n8d-b2048-synthetic-sharded",
        8 * 2048,
    )
    reasons = {case.unsupported for case in planned(device="cpu")}
    assert reasons == {"HugeCTR trains on GPUs alone: ask for device cuda"}
    resnet50 = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "data": ["synthetic"]}
    reasons = {case.unsupported for case in planned(workloads={"resnet50": resnet50})}
    assert reasons == {"no implementation yet"}


def test_its_certificate_leaves_out_what_its_python_cannot(monkeypatch):
    """Its optimiser takes no gradients; five steps in fp32 stand in for float64."""
    asked_for = {}

    def side_by_side(asked, manifest, environment, runs):
        asked_for.update(runs)
        return {}

    monkeypatch.setattr(certify, "_side_by_side", side_by_side)
    monkeypatch.setattr(judge, "tiers", lambda *arguments: [{"passed": False}])
    of_path = {"workload": "wide_deep", "device": "cuda", "precision": "fp32", "compiler": "none"}
    manifest = {"variant": "", "parts": {"1": {"loss": [1.0] * 5}}}
    for framework, alone in (("hugectr", False), ("pytorch", True)):
        asked = types.SimpleNamespace(
            layout=Proved.parse("1"), no_long_run=False, float64_only=False
        )
        subject = Subject(framework=framework, variant="", layout="1", **of_path)
        certify._tiers(asked, subject, manifest, {})
        _, _, timed = asked_for["timed"]
        assert (timed["optimizer"], timed["dropout"]) == (alone, True)
        assert asked_for["free"] == ("fp32", "none", {"kind": "steps", "steps": 5})
