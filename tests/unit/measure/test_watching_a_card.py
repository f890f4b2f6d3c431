"""What is read of a card while steps run, and of a profiled step: benchmarks/watch.py and card/.

No card is here. nvidia-smi and NVML are stand-ins; traces are short ones in the forms that
torch.profiler and JAX's profiler write.
"""

import gzip
import json
import os
import subprocess
import sys
import time
import types

import fake_nvml
import fake_smi
import numpy as np
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import watch
from card import kernels, programs, state, table

LINE = "612.34, 1755, 2619, 61, 0x0000000000000004"


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine without a card, until a test puts one in."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def watched(seconds=0.6):
    with state.Watch("0", period=0.05) as found:
        time.sleep(seconds)
    return found


# Readings


@pytest.mark.parametrize(
    "refused",
    [
        (),
        ("clocks_event_reasons.active",),  # before driver 535
        ("clocks_event_reasons.active", "power.draw.instant"),  # before driver 530
    ],
)
def test_nvidia_smi_of_any_driver_is_read_again_and_again(tmp_path, refused):
    fake_smi.install(tmp_path, [LINE], refused)
    found = watched(1.5)
    assert found.source == "nvidia-smi" and found.problem == ""
    assert len(found.samples) > 3
    assert found.samples[0][1:] == (612.34, 1755.0, 2619.0, 61.0, 4)
    assert found.samples[-1].utc - found.samples[0].utc > 0.1


def test_nvml_is_asked_where_it_is_there(monkeypatch):
    nvml = fake_nvml.pynvml([fake_nvml.hopper()])
    answers = {
        "nvmlDeviceGetPowerUsage": lambda card: 612340,
        "nvmlDeviceGetClockInfo": lambda card, which: 1755,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda card: 0x4,
    }
    for name, answer in answers.items():
        setattr(nvml, name, answer)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    found = watched(0.3)
    assert (found.source, found.problem) == ("NVML", "")
    assert found.samples[0][1:] == (612.34, 1755, 1755, None, 4)
    assert 3 <= len(found.samples) <= 8  # in 0.3 s every 0.05 s


def test_the_power_of_the_moment_is_preferred_to_a_mean(monkeypatch):
    nvml = fake_nvml.pynvml([fake_nvml.hopper()])
    value = types.SimpleNamespace(nvmlReturn=0, value=types.SimpleNamespace(uiVal=700000))
    nvml.nvmlDeviceGetFieldValues = lambda card, fields: [value]
    nvml.nvmlDeviceGetPowerUsage = lambda card: 612340
    assert state.of_nvml(nvml, nvml.nvmlDeviceGetHandleByIndex(0)).watts == 700.0
    value.nvmlReturn = 3  # not supported
    assert state.of_nvml(nvml, nvml.nvmlDeviceGetHandleByIndex(0)).watts == 612.34


def test_a_machine_without_either_says_so():
    found = watched(0.3)
    assert not found.samples and found.problem.startswith("nvidia-smi: No such file")


def test_an_nvidia_smi_that_fails_says_what_it_said(tmp_path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'Failed to initialize NVML'; exit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    found = watched(0.5)
    assert not found.samples and found.problem == "Failed to initialize NVML"


def test_an_nvidia_smi_that_ends_early_leaves_its_readings(tmp_path):
    fake_smi.install(tmp_path, [LINE, LINE], ends=True)
    found = watched(1.0)
    assert len(found.samples) == 2 and found.problem == ""


def test_no_nvidia_smi_is_left_behind(tmp_path):
    fake_smi.install(tmp_path, [LINE])
    found = watched(0.5)
    assert found._smi.poll() is not None and not found._thread.is_alive()


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (LINE, (612.34, 1755.0, 2619.0, 61.0, 4)),
        ("[N/A], 1755, 2619, 61, 0x4", (None, 1755.0, 2619.0, 61.0, 4)),
        ("612, 1755, 2619, 61, [Unknown Error]", (612.0, 1755.0, 2619.0, 61.0, None)),
        ("612, 1755, 2619, 61, Active", (612.0, 1755.0, 2619.0, 61.0, None)),
        ("[N/A], [N/A], [N/A], [N/A], [N/A]", None),
        ("612, 1755", None),
        ("", None),
        ("Unable to determine the device handle for GPU0: Unknown Error", None),
        ("1, 2, 3, 4, 5, 6", None),
    ],
)
def test_lines_of_nvidia_smi(line, values):
    found = state.of_smi(line, 1.0)
    assert (None if found is None else found[1:]) == values


def sample(utc, **said):
    values = {"watts": 600.0, "sm_mhz": 1755.0, "memory_mhz": 2619.0, "celsius": 60.0, "reasons": 0}
    return state.Sample(utc, **{**values, **said})


def test_reasons_are_shares_of_the_readings_that_know_them():
    found = [sample(1, reasons=0x4), sample(2, reasons=0x4 | 0x20), sample(3, reasons=None)]
    found += [sample(4, reasons=0x4000), sample(5)]
    shares = {"power cap": 0.5, "heat (software)": 0.25, "0x4000": 0.25}
    assert state.reasons_of(found) == shares
    assert state.reasons_of([sample(1, reasons=None)]) == state.reasons_of([]) == {}


def test_what_nvidia_smi_says_is_kept_as_files(tmp_path):
    fake_smi.install(tmp_path, [LINE])
    out = tmp_path / "out"
    out.mkdir()
    assert state.keep_files(out) == dict.fromkeys(state.FILES, "")
    assert "NVSMI LOG" in (out / "nvidia-smi-q.txt").read_text()
    assert "CPU Affinity" in (out / "topology.txt").read_text()
    (tmp_path / "nvidia-smi").unlink()
    assert all("No such file" in problem for problem in state.keep_files(out).values())


# The summary


def ran(seconds, clock="device"):
    return {
        "window_utc": [10.0, 20.0],
        "window_seconds": 10.0,
        "samples_per_second": 3000.0,
        "seconds": seconds,
        "clock": clock,
    }


def test_only_readings_of_the_window_count():
    readings = [sample(9.9, watts=90.0), sample(10.0), sample(20.0), sample(20.1, watts=90.0)]
    found = watch.summary(ran([0.01] * 4), readings)
    assert found["readings"] == 2 and found["watts"]["mean"] == 600.0
    assert found["joules_per_sample"] == pytest.approx(0.2)


def test_the_first_hundred_steps_stand_beside_the_last():
    found = watch.summary(ran([0.010] * 100 + [0.011] * 50 + [0.012] * 100), [])
    assert found["last_over_first"] == {"steps": 100, "ratio": pytest.approx(1.2)}
    assert found["step_milliseconds"]["p50"] == pytest.approx(11.0)
    few = watch.summary(ran([0.01, 0.01, 0.03]), [])
    assert few["last_over_first"] == {"steps": 1, "ratio": pytest.approx(3.0)}


def test_steps_by_the_hosts_clock_have_no_spread():
    """They are the times to queue a step."""
    found = watch.summary(ran([0.0001, 0.5], "host"), [])
    assert found["step_milliseconds"] is found["last_over_first"] is None
    found |= {"source": "", "problem": "a CPU has nothing to read"}
    assert "Steps have no spread" in watch.markdown(found)
    assert watch.steps_tsv(ran([0.0001], "host")) == "step\tseconds\n"
    assert watch.steps_tsv(ran([0.25])) == "step\tseconds\n1\t0.25\n"


def test_percentiles_are_values_that_were_measured():
    found = watch.spread([float(each) for each in range(1, 201)])
    assert (found["p1"], found["p50"], found["p99"], found["max"]) == (2.0, 100.0, 198.0, 200.0)
    assert watch.spread([5.0])["p1"] == watch.spread([5.0])["p99"] == 5.0
    assert watch.spread([]) is None


def test_a_table_of_readings_is_empty_where_a_card_does_not_say():
    found = state.tsv([sample(1.5, watts=None, reasons=0x24), sample(1.6, reasons=None)])
    assert found.splitlines() == [
        "utc\twatts\tsm_mhz\tmemory_mhz\tcelsius\treasons",
        "1.500\t\t1755.0\t2619.0\t60.0\t0x24",
        "1.600\t600.0\t1755.0\t2619.0\t60.0\t",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", "0"], "error: --seconds: 0 [allowed: more than 0]"),
        (["--seconds", "nan"], "error: --seconds: nan"),
        ([], "error: no GPU is visible"),
        (["--case", "nowhere.json"], "error: nowhere.json"),
    ],
)
def test_mistakes_are_one_message(tmp_path, options, message):
    made = [sys.executable, "-m", "dlperf.measure", "case", "--workload", "bert"]
    made += ["--framework", "pytorch", "--device", "cuda"]
    environ = {"PATH": "", "PYTHONPATH": str(ROOT / "scripts"), "CUDA_VISIBLE_DEVICES": ""}
    case = subprocess.run(made, env=environ, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, str(ROOT / "benchmarks/watch.py"), "--case", case]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out"), *options],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.startswith(message), done.stderr


# A profiled step


def complete(name, start, duration, **fields):
    return {"ph": "X", "name": name, "ts": start, "dur": duration, **fields}


TORCH = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
    complete("aten::_scaled_dot_product_efficient_attention", 0, 50, cat="cpu_op"),
    complete("aten::convolution", 0, 900, cat="cpu_op"),
    complete("cudaLaunchKernel", 1, 5, cat="cuda_runtime"),
    complete("cudaGraphLaunch", 2, 5, cat="cuda_runtime"),
    complete("gemm", 10, 30, cat="kernel"),
    complete("gemm", 50, 30.5, cat="kernel"),
    complete("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", 90, 20, cat="kernel"),
    complete("Memcpy HtoD (Pinned -> Device)", 120, 5, cat="gpu_memcpy"),
    {"ph": "i", "name": "Iteration Start", "ts": 0},
]
JAX = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
    {
        "ph": "M",
        "name": "thread_name",
        "pid": 1,
        "tid": 13,
        "args": {"name": "Stream #13(Compute)"},
    },
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "XLA Modules"}},
    {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "/host:CPU"}},
    complete("jit_step", 0, 500, pid=1, tid=1),
    complete("loop_fusion", 5, 60, pid=1, tid=13, args={"hlo_op": "loop_fusion"}),
    complete("sm90_xmma_gemm", 70, 100, pid=1, tid=13, args={}),
    complete("ExecuteSharded", 0, 900, pid=2, tid=4),
    {},
]


def test_the_longest_kernels_of_torchs_step_are_those_of_the_card():
    found = kernels.summary(TORCH)
    assert (found["on"], found["kernels"], found["different"]) == ("device", 4, 3)
    assert found["top"][0] == {"name": "gemm", "count": 2, "us": 60.5, "share": 0.7076}
    assert (found["busy_us"], found["span_us"], found["graph_launches"]) == (85.5, 115.0, 1)
    assert found["attention"] == "memory-efficient (CUTLASS)"


def test_of_jaxs_trace_modules_and_the_host_are_not_counted_again():
    found = kernels.summary(JAX)
    assert [each["name"] for each in found["top"]] == ["sm90_xmma_gemm", "loop_fusion"]
    assert (found["on"], found["busy_us"], found["attention"]) == ("device", 160.0, "")


def test_no_more_than_twenty_stand_there_and_all_are_counted():
    found = kernels.summary([complete(f"k{i}", i, 1 + i, cat="kernel") for i in range(50)])
    assert len(found["top"]) == 20 and found["kernels"] == 50 and found["top"][0]["name"] == "k49"


def test_a_step_in_which_nothing_ran_has_no_kernels():
    for events in ([], [{}], [{"ph": "X", "name": "a", "cat": "kernel"}]):
        found = kernels.summary(events)
        assert (found["kernels"], found["top"], found["busy_us"]) == (0, [], 0)


@pytest.mark.parametrize(
    ("names", "backend"),
    [
        (["pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>"], "flash"),
        (["cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"], "cuDNN"),
        (["fmha_cutlassB_bf16_aligned_64x64_k64_dropout_sm80"], "memory-efficient (CUTLASS)"),
        (["PyTorchMemEffAttention::AttentionKernel"], "memory-efficient (CUTLASS)"),
        (["triton_per_fused__softmax_0", "ampere_bf16_gemm"], ""),
        (["cudnn::bn_fw_tr_1C11_kernel_NCHW", "softmax_warp_forward"], ""),
        ([], ""),
    ],
)
def test_attention_is_known_by_its_kernels_where_a_graph_is_replayed(names, backend):
    assert kernels.attention([], names) == backend


@pytest.mark.parametrize(
    ("operator", "backend"),
    [
        ("aten::_scaled_dot_product_cudnn_attention", "cuDNN"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "flash, on a CPU"),
        ("aten::_scaled_dot_product_flash_attention_backward", "flash"),
        ("aten::_scaled_dot_product_attention_math", "separate kernels"),
    ],
)
def test_attention_is_what_the_operator_says_first(operator, backend):
    events = [complete(operator, 0, 1, cat="cpu_op")]
    assert kernels.attention(events, ["cudnn_sdpa"]) == backend


def test_traces_may_be_compressed_and_bare_lists(tmp_path):
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({"traceEvents": TORCH}).encode()))
    bare = tmp_path / "trace.json"
    bare.write_text(json.dumps([*TORCH, None, 3]))
    assert kernels.read(packed) == kernels.read(bare) == TORCH


def test_changes_of_two_settings_are_compared_tensor_by_tensor(tmp_path):
    ours = {"a": np.array([3.0, 4.0]), "b": np.array([1.0]), "c": np.zeros(2)}
    other = {**ours, "a": np.array([3.0, 4.5]), "b": np.array([1.0])}
    paths = [tmp_path / "1.npz", tmp_path / "2.npz", tmp_path / "3.npz", tmp_path / "4.npz"]
    both = (ours, other, {"a": ours["a"]}, {**ours, "c": np.ones(2)})
    for path, values in zip(paths, both, strict=True):
        np.savez(path, **values)
    said = "weights' changes apart by 0.00% at the median, 9.25% in a"
    assert table.apart(paths[0], paths[1]) == said
    assert table.apart(paths[0], paths[0]).endswith("0.00% at the median, 0.00% in a")
    assert table.apart(paths[0], paths[2]) == "not the same tensors"
    assert table.apart(paths[3], paths[0]).endswith("inf% in c")  # frozen in one of them


# XLA's programs


SMALL = (ROOT / "tests/gpu/small_program.txt").read_text()


def test_the_largest_of_xlas_programs_is_the_step(tmp_path):
    dumped = tmp_path / "programs"
    dumped.mkdir()
    (dumped / "module_1.jit_step.sm_9.0_gpu_after_optimizations.txt").write_text(SMALL)
    (dumped / "module_2.jit_add.sm_9.0_gpu_after_optimizations.txt").write_text("HloModule")
    (dumped / "module_1.ptx").write_text("x" * 10**6)
    path = programs.keep_largest(dumped, tmp_path)
    assert gzip.decompress(path.read_bytes()).decode() == SMALL
    assert list(dumped.iterdir()) == []
    assert programs.keep_largest(dumped, tmp_path) is None


def test_a_program_stands_beside_the_one_that_was_made_without_a_card(tmp_path):
    folder = tmp_path / "bert-amp-1-64-sequence_length=128"
    folder.mkdir()
    (tmp_path / "bert-amp-1-640").mkdir()
    (tmp_path / "bert-amp-1-640/program.txt.gz").write_bytes(b"")
    (folder / "program.txt.gz").write_bytes(gzip.compress(SMALL.encode()))
    assert programs.made_without_card("bert", "amp", 64, tmp_path) == folder / "program.txt.gz"
    assert programs.made_without_card("bert", "amp", 256, tmp_path) is None
    assert programs.made_without_card("bert", "amp", 64, tmp_path / "nowhere") is None
    found = programs.contents(folder / "program.txt.gz")
    assert found["kernels"] > 0
    assert list(programs.differences(found, found)) == []
    more = {**found, "kernels": 4000, "cudnn$fmha": 12}
    assert list(programs.differences(more, found)) == [
        f"kernels 4,000 (without a card {found['kernels']:,})",
        "cudnn$fmha 12 (without a card 0)",
    ]
