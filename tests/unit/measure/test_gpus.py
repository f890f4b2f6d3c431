"""What a node says of its GPUs, and which builds run there. NVML's answers are made up here."""

import dataclasses
import io
import json
import os
import sys
import types

import fake_nvml
import jsonschema
import pytest
from fake_nvml import ampere, hopper

from dlperf.analysis.schema import documents
from dlperf.contract.layout import Layout
from dlperf.contract.run import Run
from dlperf.environments import FILES as ENVS
from dlperf.environments import files
from dlperf.measure import gate, host, launch, node, stopwatch

CASE = {
    "identity": {
        "round": "gpu",
        "workload": "resnet50",
        "framework": "pytorch",
        "compiler": "none",
        "precision": "fp32",
        "batch_size": 256,
        "image_size": 224,
        "scenario": "train",
        "nodes": 1,
        "devices_per_node": 1,
        "layout": dataclasses.asdict(Layout()),
        "data": "synthetic",
        "repetition": 1,
    },
    "settings": {
        "device": "cuda",
        "warmup_steps": 20,
        "measured_steps": 100,
        "cores_per_device": 1,
        "timeout_seconds": 60,
        "seed": 1,
        "data_dir": "",
    },
}
RUN_ON_HOPPER = {"pytorch", "jax", "tensorflow", "mindspore"}
FRAMEWORKS = sorted(RUN_ON_HOPPER | {"mxnet", "oneflow", "paddlepaddle", "tensorflow1"})


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine without GPUs, until a test puts some in."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def insert(monkeypatch):
    def cards(*cards, driver="580.65.06"):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.pynvml(list(cards), driver))

    return cards


SMI = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-0a-h100",
    "driver_version": "580.65.06",
    "memory.total": "81559",
    "clocks.sm": "1980",
    "clocks.mem": "2619",
    "power.limit": "700.00",
    "compute_cap": "9.0",
}


# Facts


def test_nvml_says_what_a_card_can_compute(insert):
    insert(ampere(0), hopper(1))
    first, second = host.gpu_facts(["0", "1"])
    assert (first["compute_capability"], second["compute_capability"]) == ("8.0", "9.0")
    assert second["name"] == "NVIDIA H100 80GB HBM3" and second["driver"] == "580.65.06"
    assert second["power_limit_watts"] is None  # this one does not say


def test_without_pynvml_a_record_still_knows_its_card(tmp_path):
    fake_nvml.nvidia_smi(tmp_path, SMI)
    assert host.visible_gpus() == ["0"]
    (facts,) = host.gpu_facts(["0"])
    assert facts == {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-0a-h100",
        "driver": "580.65.06",
        "memory_bytes": 81559 * 2**20,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "power_limit_watts": 700.0,
        "compute_capability": "9.0",
    }


def test_an_old_nvidia_smi_says_less(tmp_path):
    old = {key: value for key, value in SMI.items() if key != "compute_cap"}
    fake_nvml.nvidia_smi(tmp_path, {**old, "power.limit": "[N/A]", "clocks.sm": "unknown"})
    (facts,) = host.gpu_facts(["0"])
    assert facts["name"] == "NVIDIA H100 80GB HBM3"
    unknown = ("power_limit_watts", "sm_clock_mhz", "compute_capability")
    assert [facts[key] for key in unknown] == [None, None, None]


@pytest.mark.parametrize(
    ("listed", "seen"),
    [
        (None, ["0", "1"]),
        ("1", ["1"]),
        ("1, 0", ["1", "0"]),
        ("1,7,0", ["1"]),  # CUDA too stops at the first that is not there
        ("GPU-1a", ["GPU-1a"]),
        ("GPU-7", []),
        ("MIG-5", ["MIG-5"]),
        ("-1", []),
        ("NoDevFiles", []),
        ("", []),
    ],
)
def test_visible_gpus_are_those_that_cuda_shows(insert, monkeypatch, listed, seen):
    insert(hopper(0), hopper(1))
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert host.visible_gpus() == seen


def test_another_jobs_card_is_not_counted(insert):
    insert(ampere(0, foreign=True), hopper(1))
    assert host.visible_gpus() == ["0"]
    assert host.gpu_facts(["0"])[0]["name"] == hopper().name


@pytest.mark.parametrize("schema", [documents.RECORD, documents.NODE], ids=lambda path: path.name)
@pytest.mark.parametrize("source", ["nvml", "nvidia-smi"])
def test_schemas_have_what_is_said_of_a_card(schema, source, insert, tmp_path):
    insert(hopper()) if source == "nvml" else fake_nvml.nvidia_smi(tmp_path, SMI)
    (facts,) = host.gpu_facts(["0"])
    whole = json.loads(schema.read_text())
    card = whole["$defs"]["gpu"]
    jsonschema.validate(facts, {**card, "additionalProperties": False})
    assert facts["compute_capability"] == "9.0"


# Energy


def a_rank(rank, gpus):
    own = {"rank": rank, "local_rank": rank, "devices": 1, "cuda": True, "gpus": gpus}
    return types.SimpleNamespace(result="nowhere.json", **own)


def looked_at(insert, monkeypatch, *cards):
    """A node with a rank a card, whose window begins, and whose ranks are done one by one."""
    insert(*cards)
    found = node.Node("cuda", len(cards), io.StringIO())
    found._runs = [a_rank(rank, found._gpus) for rank in range(len(cards))]
    monkeypatch.setattr(node.tree, "processes", dict)
    monkeypatch.setattr(found, "_look", lambda rank, moment, there: [])
    monkeypatch.setattr(found, "_look_at_gpus", lambda moment, there: None)
    return found


def test_a_node_counts_the_energy_from_the_barrier_until_a_rank_is_done(insert, monkeypatch):
    cards = hopper(0, millijoules=1000), hopper(1, millijoules=5000)
    found = looked_at(insert, monkeypatch, *cards)
    try:
        found.look(0, "rested")
        cards[0].millijoules = 2000  # while it waits at the barrier
        found.note("window")
        cards[0].millijoules, cards[1].millijoules = 9000, 8000
        found.look(0, "ended")
        cards[0].millijoules = 99000  # what it does afterwards is none of the window
        cards[1].millijoules = 8500
        found.look(1, "ended")
        found.note("end")
        assert found.results()["joules"] == {0: [2.0, 9.0], 1: [5.0, 8.5]}
        moments = [moment for moment, _ in found.results()["gpu_load"]]
        assert moments == ["window", "end"]
    finally:
        found.stop()


@pytest.mark.parametrize(
    ("joules", "expected"),
    [
        ({0: [2.0, 9.0]}, [7.0]),
        ({0: [2.0, 2.0]}, [0.0]),
        ({0: [None, None]}, []),
        ({0: [2.0, None]}, []),
        ({0: [2.0]}, []),  # its window was not over
        ({}, []),
    ],
)
def test_the_energy_is_what_the_node_counted_where_it_could(joules, expected):
    attempt = stopwatch.Attempt.__new__(stopwatch.Attempt)
    attempt.facts, attempt._local_ranks, attempt._results = [{}], 1, [{"joules": joules}]
    counted = attempt._energy()
    assert [each["joules"] for each in counted] == expected
    assert all(each["device"] == 0 and each["counter"] == "nvml_total_energy" for each in counted)


def test_a_node_counts_what_all_cards_of_a_rank_take(insert):
    cards = [hopper(0), hopper(1), hopper(2)]
    insert(*cards)
    for gpus, devices, expected in ((["2", "1"], 1, 5.0), (["2", "1"], 2, 12.0)):
        there = node.Node("cuda", 1, io.StringIO())
        there._runs = [types.SimpleNamespace(**vars(a_rank(0, gpus)) | {"devices": devices})]
        try:
            before = there._taken(0)
            cards[2].millijoules += 5000
            cards[1].millijoules += 7000
            assert there._taken(0) - before == expected
        finally:
            there.stop()


# Cores


def pairs(cores):
    """Hyper-threads as Linux numbers them: core n and n + cores."""
    return [[core, core + cores] for core in range(cores)]


EIGHT_CORES = pairs(8)  # of two sockets: 0 to 3 and 4 to 7, with 8 to 11 and 12 to 15
LEFT, RIGHT = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]


def test_a_rank_gets_cores_on_its_cards_side():
    assert node.close_cores(EIGHT_CORES, [RIGHT, LEFT]) == [sorted(RIGHT), sorted(LEFT)]


def test_ranks_on_one_side_share_it_in_whole_cores():
    found = node.close_cores(EIGHT_CORES, [LEFT, LEFT, RIGHT, RIGHT])
    assert found == [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]


def test_hyper_threads_of_a_core_go_to_one_rank():
    unknown = [[], [], []]
    found = node.close_cores(EIGHT_CORES, unknown)
    assert found == [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13]]
    in_turn = [[0, 1], [2, 3], [4, 5]]  # as other machines number them
    assert node.close_cores(in_turn, unknown) == in_turn


@pytest.mark.parametrize("close", [[LEFT, []], [LEFT, [77]], [LEFT, [3, *RIGHT]]])
def test_sides_that_are_not_known_or_overlap_are_not_used(close):
    first, second = node.close_cores(EIGHT_CORES, close)
    assert (first, second) == (sorted(LEFT), sorted(RIGHT))  # halves of all


def test_only_cores_that_the_job_may_use_are_shared():
    allowed = [[0, 8], [1, 9], [4, 12]]
    found = node.close_cores(allowed, [LEFT, LEFT, RIGHT])
    assert found == [[0, 8], [1, 9], [4, 12]]


def test_more_ranks_than_cores_share_all_of_them():
    assert node.close_cores([[0, 1]], [[], []]) == [[0, 1], [0, 1]]


def test_a_node_says_which_cores_are_close_to_a_card(insert):
    insert(hopper(0, cores=(0, 1, 64)), hopper(1))
    assert host.gpu_sides(["0"])[0][0][:2] == [0, 1]
    assert host.gpu_sides(["1"]) == [([], "")]
    threads = host.siblings(host.cores())
    assert sorted(core for each in threads for core in each) == host.cores()


def put_in_sysfs(root, place="0000:17:00.0", number="1", cores="4-7,12-15"):
    card = root / "bus/pci/devices" / place
    card.mkdir(parents=True)
    (card / "numa_node").write_text(number + "\n")
    side = root / "devices/system/node/node1"
    side.mkdir(parents=True)
    (side / "cpulist").write_text(cores + "\n")


@pytest.mark.parametrize(
    ("place", "cores"),
    [
        ("00000000:17:00.0", [4, 5, 6, 7, 12, 13, 14, 15]),  # as NVIDIA writes it
        ("0000:17:00.0", [4, 5, 6, 7, 12, 13, 14, 15]),
        ("00000000:18:00.0", []),
        ("", []),
        ("[N/A]", []),
    ],
)
def test_without_nvml_the_side_is_that_of_the_cards_place_on_the_bus(tmp_path, place, cores):
    put_in_sysfs(tmp_path)
    assert host.cores_by_place(place, str(tmp_path)) == cores


@pytest.mark.parametrize(("number", "cores"), [("-1", "0-3"), ("", "0-3"), ("2", "0-3"), ("1", "")])
def test_a_side_that_the_firmware_does_not_say_is_unknown(tmp_path, number, cores):
    put_in_sysfs(tmp_path, number=number, cores=cores)
    assert host.cores_by_place("00000000:17:00.0", str(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-2,5\n", [0, 1, 2, 5]), ("7", [7]), ("", []), ("a-3", []), ("3-", [3]), ("0-1,x", [])],
)
def test_lists_of_cores_as_the_kernel_writes_them(text, cores):
    assert host.listed_cores(text) == cores


def test_sides_are_asked_of_nvml_first_and_then_of_sysfs(insert, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(host, "cores_by_place", lambda place: asked.append(place) or [4, 5])
    insert(hopper(0, cores=(0, 1)), hopper(1))
    sys.modules["pynvml"].nvmlDeviceGetPciInfo = lambda card: types.SimpleNamespace(
        busId=b"00000000:18:00.0"
    )
    assert host.gpu_sides(["0", "1"]) == [([0, 1], "nvml"), ([4, 5], "sysfs")]
    assert asked == ["00000000:18:00.0"]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    fields = {"index": "0", "uuid": "GPU-0a", "pci.bus_id": "00000000:17:00.0"}
    fake_nvml.nvidia_smi(tmp_path, fields)
    assert host.gpu_sides(["0", "GPU-0a", "3"])[:2] == [([4, 5], "sysfs")] * 2
    assert asked[1:] == ["00000000:17:00.0", "00000000:17:00.0", ""]


def test_a_rank_whose_cores_are_on_the_other_side_is_known():
    about = {"gpu_cores": [LEFT, RIGHT, []], "gpu_cores_by": ["nvml", "sysfs", ""]}
    ranks = [
        {"rank": 0, "local_rank": 0, "cores": LEFT[:2]},
        {"rank": 1, "local_rank": 1, "cores": [LEFT[0], RIGHT[0]]},
        {"rank": 2, "local_rank": 2, "cores": LEFT},
    ]
    assert node.placement(about, ranks) == [
        {"rank": 0, "by": "nvml", "beside": True},
        {"rank": 1, "by": "sysfs", "beside": False},
        {"rank": 2, "by": "", "beside": None},
    ]
    both = {"rank": 0, "local_rank": 0, "cores": LEFT + RIGHT, "devices": 2}
    assert node.placement(about, [both]) == [{"rank": 0, "by": "nvml sysfs", "beside": True}]


def test_the_log_says_which_rank_is_far_from_its_card():
    attempt = stopwatch.Attempt.__new__(stopwatch.Attempt)
    about = {"gpu_cores": [LEFT, RIGHT], "gpu_cores_by": ["nvml", "nvml"]}
    attempt._nodes, attempt._log = [types.SimpleNamespace(about=about)], io.StringIO()
    attempt._runs = [[{"rank": each, "local_rank": each, "cores": LEFT} for each in (0, 1)]]
    attempt._say_who_is_far()
    (line,) = attempt._log.getvalue().splitlines()
    assert line.startswith("rank 1: cores on another side of the machine than its card")


@pytest.mark.parametrize(
    ("said", "cores"),
    [("72(x2),36", 36), ("64(x4)", 64), ("8", 8), ("", 0), ("many", 0), (None, 0)],
)
def test_a_job_over_nodes_takes_all_cores_that_it_has(said, cores):
    environ = {} if said is None else {"SLURM_JOB_CPUS_PER_NODE": said}
    assert launch.allocated_cores(environ) == cores


def test_what_a_card_does_under_load_is_read(insert):
    insert(hopper(0))
    nvml = sys.modules["pynvml"]
    nvml.nvmlDeviceGetPowerUsage = lambda card: 612340
    nvml.nvmlDeviceGetClockInfo = lambda card, which: 1755
    nvml.nvmlDeviceGetViolationStatus = lambda card, which: types.SimpleNamespace(
        violationTime=3 * 10**9
    )
    (load,) = host.gpu_load(["0"])
    assert (load["power_watts"], load["sm_clock_mhz"], load["throttle_reasons"]) == (
        *(612.34, 1755),
        None,
    )
    assert load["power_violation_seconds"] == 3.0
    assert host.gpu_load(["7"]) == [{}]
    assert host.gpu_facts(["0"])[0]["power_violation_seconds"] == 3.0


def test_placed_ranks_have_the_cores_of_their_cards():
    about = {
        "address": "127.0.0.1",
        "interface": "lo",
        "cores": list(range(16)),
        "threads": EIGHT_CORES,
        "gpu_cores": [RIGHT, LEFT],
        "ports": [1, 2, 3],
        "facts": {"memory_bytes": 64 * 10**9, "gpus": [{"memory_bytes": 80 * 10**9}] * 2},
    }
    case = {**CASE, "identity": {**CASE["identity"], "devices_per_node": 2}}
    (runs,) = node.placed(case, [about], sys.executable, "127.0.0.1:9")
    assert [run["cores"] for run in runs] == [RIGHT, LEFT]
    assert [run["pool_bytes"] for run in runs] == [8 * 10**9] * 2
    cpu = {**case, "settings": {**case["settings"], "device": "cpu", "cores_per_device": 4}}
    (runs,) = node.placed(cpu, [about], sys.executable, "127.0.0.1:9")
    assert [run["cores"] for run in runs] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [run["pool_bytes"] for run in runs] == [32 * 10**8] * 2


def test_ranks_count_cards_as_nvml_does_and_keep_the_sites_libraries(insert, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/site/nccl-plugin")
    insert(ampere(0), hopper(1))
    there = node.Node("cuda", 2, log=None)
    try:
        (runs,) = node.placed(
            {**CASE, "identity": {**CASE["identity"], "devices_per_node": 2}},
            [there.about],
            sys.executable,
            "127.0.0.1:9",
        )
        run = Run(**runs[1], gpus=["0", "1"], capability="9.0", result="rank1.json")
        environment = there._environment(run, {"LD_LIBRARY_PATH": "/env/nvidia/lib"})
    finally:
        there.stop()
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment["CUDA_CACHE_MAXSIZE"] == str(4 * 2**30)
    assert environment["LD_LIBRARY_PATH"] == "/env/nvidia/lib:/site/nccl-plugin"
    assert there._capability({"local_rank": 1}) == "9.0"
    assert environment["NCCL_DEBUG"] == "INFO" and environment["NCCL_DEBUG_SUBSYS"] == "INIT"


def test_ranks_say_how_they_exchange_where_there_is_an_exchange(insert, monkeypatch):
    insert(hopper(0))
    there = node.Node("cuda", 1, log=None)
    try:
        (runs,) = node.placed(CASE, [there.about], sys.executable, "127.0.0.1:9")
        alone = Run(**runs[0], gpus=["0"], capability="9.0", result="rank0.json")
        assert "NCCL_DEBUG" not in there._environment(alone, {})
        with_all_cards = dataclasses.replace(alone, devices=8)
        environment = there._environment(with_all_cards, {})
        folder = os.path.dirname(environment["NCCL_DEBUG_FILE"])
        with open(os.path.join(folder, "nccl.n1.77"), "w") as stream:
            stream.write("NCCL version 2.27.3+cuda12.9\n")
        assert there.results()["exchange"]["version"] == "2.27.3+cuda12.9"
        monkeypatch.setenv("NCCL_DEBUG", "WARN")
        assert "NCCL_DEBUG_FILE" not in there._environment(with_all_cards, {})
    finally:
        there.stop()


# The gate


def measured(framework, tmp_path, **environment):
    """The record of a case whose ranks, if they are started, end at once."""
    build = files.build_section(framework, f"{framework}.cuda", ENVS / f"{framework}.cuda.yaml")
    document = {
        "status": "ok",
        "framework": framework,
        "version": "1.2.3",
        "interpreter": "/bin/false",
        "capabilities": build.capabilities,
        "driver": build.driver,
        **environment,
    }
    path = tmp_path / "env.json"
    path.write_text(json.dumps(document))
    compiler = {"jax": "xla"}.get(framework, "none")
    identity = {**CASE["identity"], "framework": framework, "compiler": compiler}
    case = {**CASE, "identity": identity}
    with open(tmp_path / "log", "w") as log:
        return stopwatch.measure(case, str(path), log=log)


def started(record):
    return record["status"] == "crashed" and "ended with exit status 1" in record["reason"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_on_hopper_a_build_runs_or_says_why_not(framework, insert, tmp_path):
    insert(hopper())
    record = measured(framework, tmp_path)
    if framework in RUN_ON_HOPPER:
        assert started(record), record["reason"]
    else:
        assert record["status"] == "unsupported"
        assert f"{framework} 1.2.3 has no kernels for the NVIDIA H100" in record["reason"]
        assert "(compute capability 9.0)" in record["reason"] and "no PTX" in record["reason"]
        assert record["host"]["gpus"][0]["compute_capability"] == "9.0"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_on_ampere_all_but_the_oldest_build_run(framework, insert, tmp_path):
    insert(ampere())
    assert started(measured(framework, tmp_path)) == (framework != "tensorflow1")


def test_a_missing_gpu_is_unsupported(tmp_path):
    record = measured("tensorflow", tmp_path)
    assert record["status"] == "unsupported"
    assert record["reason"] == f"no GPU on {host.name()}: neither NVML nor nvidia-smi finds one"


def test_a_gpu_that_is_hidden_or_not_there_is_unsupported(insert, monkeypatch, tmp_path):
    insert(hopper())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    record = measured("pytorch", tmp_path)
    assert record["status"] == "unsupported"
    assert "that CUDA_VISIBLE_DEVICES='3' lets it use" in record["reason"]


def test_too_old_a_driver_is_named(insert, tmp_path):
    insert(hopper(), driver="535.104.05")
    record = measured("pytorch", tmp_path)
    assert record["status"] == "unsupported"
    assert record["reason"] == (
        f"pytorch 1.2.3 needs NVIDIA's driver 580 or newer, but {host.name()} has 535.104.05"
    )


def test_kernels_that_the_driver_compiles_need_a_newer_one(insert, tmp_path):
    """TensorFlow has machine code for Ampere, and PTX of CUDA 12.5 for Hopper."""
    insert(ampere(), driver="535.104.05")
    assert started(measured("tensorflow", tmp_path))
    insert(hopper(), driver="535.104.05")
    record = measured("tensorflow", tmp_path)
    assert record["status"] == "unsupported"
    assert "driver 555 or newer to compile for the NVIDIA H100" in record["reason"]


def test_nvidia_smi_is_enough_for_the_gate(tmp_path):
    fake_nvml.nvidia_smi(tmp_path, SMI)
    assert "no kernels" in measured("mxnet", tmp_path)["reason"]
    assert started(measured("pytorch", tmp_path))


def test_a_container_and_a_users_own_python_are_not_judged(insert, tmp_path):
    insert(hopper(), driver="400.1")
    assert started(measured("mxnet", tmp_path, capabilities={}, driver=""))
    document = json.loads((tmp_path / "env.json").read_text())
    del document["capabilities"], document["driver"]  # env.json of an earlier version
    assert gate.no_kernels(document, [{"compute_capability": "9.0"}], "n1") == ""


def test_each_card_of_a_node_is_looked_at():
    has = {"capabilities": {"sass": ["8.0"], "ptx": "", "ptx_driver": ""}, "driver": "450"}
    has.update(framework="x", version="1")
    cards = [{"compute_capability": "8.6"}, {}, {"compute_capability": "7.5", "name": "T4"}]
    assert "no kernels for the T4 (compute capability 7.5) on n1" in gate.no_kernels(
        has, cards, "n1"
    )
    assert gate.no_kernels(has, cards[:2], "n1") == ""


@pytest.mark.parametrize(
    ("capability", "sass", "ptx", "expected"),
    [
        ("9.0", ["8.0", "9.0"], "", True),
        ("8.9", ["8.0"], "", True),  # a later minor version runs it
        ("8.0", ["8.6"], "", False),  # an earlier one does not
        ("9.0", ["8.0", "8.6"], "", False),
        ("9.0", ["8.0"], "8.6", True),
        ("9.0", ["8.0"], "10.0", False),
        ("12.0", ["10.0"], "9.0", True),
        ("7.0", ["7.5"], "", False),
    ],
)
def test_kernels_run_on_later_cards_of_their_generation_and_ptx_on_all_later_ones(
    capability, sass, ptx, expected
):
    runs = gate.runs_sass(capability, sass) or gate.runs_ptx(capability, ptx)
    assert runs is expected


def test_who_computes_on_a_gpu_and_how_much_is_nvmls_word(monkeypatch):
    card = hopper(0, pids=(70, 71), samples=((70, 100.5, 80), (70, 99.0, 10)))
    other = hopper(1, pids=(70,))
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.pynvml([card, other]))
    assert host.gpu_processes(["0", "1"]) == [[70, 71], [70]]
    assert host.gpu_busy(["0", "1"], 100.0) == [[70, 100.5, 80]], "a card without a sample: none"


def test_without_nvml_nobody_is_seen_on_a_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert host.gpu_processes(["0", "1"]) == [[], []]
    assert host.gpu_busy(["0", "1"], 100.0) == []
