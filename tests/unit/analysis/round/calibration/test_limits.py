"""MFU: FLOPs a sample, peaks that are stated and measured, and what is never guessed."""

import pytest
import yaml
from analysed_round import analyse, cell
from generated_round import CPU, calibrate, config, stretch, write_round

from dlperf import plan, workloads
from dlperf.analysis.__main__ import main
from dlperf.analysis.round.calibration import limits
from dlperf.analysis.round.calibration.multiplied import peak_precision
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.files import read_table
from dlperf.plan import ConfigError, peaks
from dlperf.scenarios import train

#: One core alone, and each of two at once.
MEASURED = {("fp32", 1): 0.080, ("fp32", 2): 0.050, ("bf16", 1): 0.300, ("bf16", 2): 0.200}
TWO = {"frameworks": ["pytorch", "mxnet"], "resnet50_data": ["synthetic"]}


def on_gpus(name: str, images_per_second: float, **parity):
    """Changes a generated record to one of GPUs with this name and speed."""

    def change(record):
        record["host"]["gpus"] = [{"name": name, "driver": "580.1"}]
        record["parity"].update(parity)
        wanted = record["samples"] / images_per_second
        stretch(record, wanted / train.window_seconds(record))

    return change


GPU_ROUND = config(
    device="cuda",
    frameworks=["pytorch"],
    topologies=["1n1d"],
    resnet50_data=["synthetic"],
    resnet50_precisions=["amp"],
    resnet50_image_size=224,
)


def test_a_training_image_of_resnet50_costs_24_5_gflop():
    """4.089 GMAC forward at 224 px: torchvision's own figure for its ResNet-50 (v1.5)."""
    facts = workloads.facts("resnet50")
    forward = facts.flops_per_sample({"image_size": 224}, "infer")
    assert forward / 2e9 == pytest.approx(4.089, abs=5e-4)
    assert facts.flops_per_sample({"image_size": 224}, "train") == 3 * forward
    assert 3 * forward / 1e9 == pytest.approx(24.5, abs=0.05)


@pytest.mark.parametrize("size", [32, 64, 75, 224, 299])
def test_flops_of_resnet50_are_those_of_its_convolutions_one_by_one(size):
    """A second walk over the network: outputs by the textbook formula of each kernel."""

    def after(side: int, kernel: int, stride: int) -> int:
        return (side + 2 * (kernel // 2) - kernel) // stride + 1

    def conv(inputs: int, outputs: int, kernel: int, side: int) -> int:
        return kernel * kernel * inputs * outputs * side * side

    side = after(size, 7, 2)
    total = conv(3, 64, 7, side)
    side, channels = after(side, 3, 2), 64
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for stride in [first] + [1] * (blocks - 1):
            out = after(side, 3, stride)
            total += conv(channels, width, 1, side)
            total += conv(width, width, 3, out) + conv(width, 4 * width, 1, out)
            if channels != 4 * width:
                total += conv(channels, 4 * width, 1, out)
            side, channels = out, 4 * width
    total += 2048 * 1000
    found = workloads.of("resnet50").flops_per_sample({"image_size": size}, "infer")
    assert found == 2 * total


@pytest.mark.parametrize("tokens", [16, 32, 128, 512])
def test_flops_of_bert_are_six_a_weight_and_token_and_attention(tokens):
    """PaLM's formula (appendix B): 6 N + 12 L H Q T a token; N: weights that multiply a token."""
    facts = workloads.facts("bert")
    tensors = facts.parameters({})
    products = {name: each.size for name, each in tensors.items() if each.is_matrix}
    encoder = sum(size for name, size in products.items() if name.startswith("layer"))
    head = products["mlm.weight"] + products["word_embedding"]  # the decoder is the embedding
    pairs = products["pooler.weight"] + products["nsp.weight"]
    attention = 12 * facts.LAYERS * facts.HEADS * facts.HEAD_WIDTH * tokens
    expected = tokens * (6 * encoder + attention)
    expected += 6 * (facts.masked_positions(tokens) * head + pairs)
    found = facts.flops_per_sample({"sequence_length": tokens, "clip": 1}, "train")
    assert found == expected


def test_flops_grow_with_classes_and_layers(monkeypatch):
    resnet50, bert = workloads.facts("resnet50"), workloads.facts("bert")
    before = resnet50.flops_per_sample({"image_size": 64}, "infer")
    monkeypatch.setattr(resnet50, "CLASSES", 10)
    assert before - resnet50.flops_per_sample({"image_size": 64}, "infer") == 2 * 2048 * 990
    before = bert.flops_per_sample({"sequence_length": 128}, "train")
    monkeypatch.setattr(bert, "LAYERS", 24)
    assert 1.6 < bert.flops_per_sample({"sequence_length": 128}, "train") / before < 2


def test_mfu_is_shown_beside_the_measured_peak_of_as_many_devices(tmp_path):
    results = write_round(tmp_path, config(**TWO), noise=0)
    calibrate(results, "node1", MEASURED)
    rows = analyse(results)
    flops = workloads.of("resnet50").flops_per_sample({"image_size": 64}, "train")
    for devices, peak in ((1, 0.080), (2, 0.050)):
        found = cell(rows, "pytorch", devices)
        assert found["flops_per_sample"] == flops
        assert (found["peak_precision"], found["peak_measured_tflops"]) == ("fp32", peak)
        achieved = found["median"] * flops / 1e12 / devices
        assert found["mfu_measured"] == pytest.approx(achieved / peak)
        assert found["mfu_stated"] is None and found["peak_stated_tflops"] is None
        assert "mfu" not in found["flags"]


def test_without_a_calibration_of_each_of_its_nodes_a_cell_has_no_measured_peak(tmp_path):
    nodes = config(**TWO, topologies=["1n1d", "2n1d"])
    results = write_round(tmp_path, nodes, noise=0)
    calibrate(results, "node1", MEASURED)
    by_nodes = {row["nodes"]: row for row in analyse(results) if row["framework"] == "mxnet"}
    assert by_nodes[1]["mfu_measured"] is not None
    assert by_nodes[2]["mfu_measured"] is None, "node2 has no calibration"
    calibrate(results, "node2", {key: 2 * rate for key, rate in MEASURED.items()})
    by_nodes = {row["nodes"]: row for row in analyse(results) if row["framework"] == "mxnet"}
    assert by_nodes[2]["peak_measured_tflops"] == pytest.approx(0.120), "mean of 0.08 and 0.16"


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "crashed", "reason": "rank 0: killed"},
        {"device": "cuda"},
        {"cores_per_device": 4},
        {"nodes": [{"hostname": "node1", "foreign_cpu_share": 0.3}]},
        {
            "nodes": [
                {
                    "hostname": "node1",
                    "idle_share_before": 0.5,
                    "busy_processes_before": [["make", 0.9]],
                }
            ]
        },
    ],
    ids=["failed", "other devices", "other cores", "foreign load", "not idle before"],
)
def test_a_calibration_that_failed_was_disturbed_or_is_of_other_devices_is_no_limit(
    tmp_path, changes
):
    results = write_round(tmp_path, config(**TWO), noise=0)
    calibrate(results, "node1", MEASURED, **changes)
    assert not any(row["mfu_measured"] for row in analyse(results))
    assert read_table(results / "limits.tsv") == []


def test_fewer_devices_than_were_calibrated_take_the_peak_of_one_alone(tmp_path):
    four = config(**TWO, topologies=["1n1d", "1n2d", "1n4d"])
    results = write_round(tmp_path, four, noise=0)
    calibrate(results, "node1", {("fp32", 1): 0.08, ("fp32", 4): 0.03})
    rows = analyse(results)
    taken = {n: cell(rows, "pytorch", n)["peak_measured_tflops"] for n in (1, 2, 4)}
    assert taken == {1: 0.08, 2: 0.08, 4: 0.03}


def test_a_gpu_has_its_stated_dense_peak(tmp_path):
    """PyTorch in fp16 on an A100: 2,500 images/s are 61.3 TFLOP/s of 312."""
    change = on_gpus("NVIDIA A100-SXM4-80GB", 2500, compute_dtype="float16")
    (found,) = analyse(write_round(tmp_path, GPU_ROUND, change=change))
    assert found["peak_precision"] == "fp16"
    assert found["peak_stated_tflops"] == 312
    assert found["mfu_stated"] == pytest.approx(2500 * 24.535e9 / 312e12, rel=1e-3)
    assert found["mfu_measured"] is None


def entry(what: str, at_once: int, speed: float, precision: str = "") -> dict:
    amount = {"flops": speed * 1e12} if what == "gemm" else {"bytes": speed * 1e9}
    return {
        "what": what,
        "precision": precision,
        "at_once": at_once,
        "seconds": [2.0, 1.0],
    } | amount


def test_a_calibration_gives_the_fastest_turn_of_as_many_devices_as_worked():
    alone = [entry("gemm", 1, 700, "bf16"), entry("copy", 1, 3000), entry("triad", 1, 3200)]
    ranks = [
        {"node": "a", "measured": [*alone, entry("gemm", 2, 600, "bf16"), entry("copy", 2, 2900)]},
        {"node": "a", "measured": [entry("gemm", 2, 500, "bf16"), entry("copy", 2, 2700)]},
    ]
    rows = list(limits.reached({"ranks": ranks}))
    assert limits.measured_peak(["a"], 1, "bf16", rows) == 700
    assert limits.memory(["a"], 1, rows) == 3200
    assert limits.measured_peak(["a"], 4, "bf16", rows) == 550
    assert limits.memory(["a"], 2, rows) == 2800
    assert limits.measured_peak(["a"], 1, "fp16", rows) is None
    assert limits.memory(["a", "b"], 1, rows) is None, "b was not calibrated"
    assert limits.memory([], 1, rows) is None


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-40GB MIG 3g.20gb", "NVIDIA H100", "A1000"])
def test_a_gpu_whose_whole_name_is_not_known_has_no_stated_peak(tmp_path, name):
    change = on_gpus(name, 2500, compute_dtype="float16")
    (found,) = analyse(write_round(tmp_path, GPU_ROUND, change=change))
    assert found["mfu_stated"] is None and found["peak_stated_tflops"] is None


def test_mfu_above_100_percent_is_suspect(tmp_path):
    change = on_gpus("Tesla T4", 4000, compute_dtype="float16")
    (found,) = analyse(write_round(tmp_path, GPU_ROUND, change=change))
    assert found["mfu_stated"] > 1
    assert "suspect:mfu-above-100%" in found["flags"].split()
    slower = write_round(
        tmp_path / "slower", GPU_ROUND, change=on_gpus("Tesla T4", 1000, compute_dtype="float16")
    )
    (found,) = analyse(slower)
    assert "mfu" not in found["flags"]


def test_a_cpu_has_a_stated_peak_where_the_config_states_one(tmp_path):
    """Of one core; a device has `cores_per_device` of them."""
    stated = config(**TWO, cores_per_device=2, peaks={CPU: {"fp32": 0.08}})
    rows = analyse(write_round(tmp_path, stated, noise=0))
    assert cell(rows, "pytorch", 2)["peak_stated_tflops"] == pytest.approx(0.16)
    (limit,) = read_table(tmp_path / "results/laptop/limits.tsv")
    assert (limit["basis"], limit["source"]) == ("stated", "`peaks` in the round's config")


def test_repetitions_on_other_devices_have_no_common_stated_peak(tmp_path):
    def change(record):
        name = "NVIDIA H200" if record["identity"]["repetition"] == 1 else "NVIDIA L4"
        on_gpus(name, 2000, compute_dtype="float16")(record)

    (found,) = analyse(write_round(tmp_path, GPU_ROUND, change=change))
    assert found["n_ok"] == 3 and found["mfu_stated"] is None


@pytest.mark.parametrize(
    "parity, precision, device, expected",
    [
        ({"compute_dtype": "float32"}, "fp32", "cpu", "fp32"),
        ({}, "fp32", "cpu", "fp32"),
        ({}, "amp", "cpu", ""),
        ({"compute_dtype": "bfloat16"}, "amp", "cpu", "bf16"),
        ({"compute_dtype": "bfloat16, float32"}, "amp", "cpu", "bf16"),
        ({"compute_dtype": "float16"}, "amp", "cuda", "fp16"),
        ({"compute_dtype": "float32", "tf32_matmul": False}, "fp32", "cuda", "fp32"),
        (
            {"compute_dtype": "float32", "tf32_matmul": False, "tf32_convolution": True},
            "fp32",
            "cuda",
            "tf32",
        ),
        ({"compute_dtype": "float32"}, "fp32", "cuda", "tf32"),
        ({"oneflow_ep_cuda_enable_tf32_execution": "0"}, "fp32", "cuda", "fp32"),
    ],
)
def test_the_precision_of_the_peak_is_what_the_process_reported(
    parity, precision, device, expected
):
    assert peak_precision(parity, precision, device) == expected


def test_a_gpu_without_tf32_computes_in_fp32(tmp_path):
    fp32 = {**GPU_ROUND, "workloads": {"resnet50": {**GPU_ROUND["workloads"]["resnet50"]}}}
    fp32["workloads"]["resnet50"]["precisions"] = ["fp32"]
    change = on_gpus("Tesla V100-SXM2-16GB", 350, tf32=True)
    (found,) = analyse(write_round(tmp_path, fp32, change=change))
    assert (found["peak_precision"], found["peak_stated_tflops"]) == ("tf32", 15.7)


class TestStatedPeaksAreDense:
    """MFU over a peak with sparsity would be half of the true one."""

    #: GPU -> SMs, fp16 FLOPs a clock and SM of its tensor cores on dense matrices, summed up in
    #: fp32 (NVIDIA's architecture papers of Volta, Turing, Ampere, Ada and Hopper), boost in GHz.
    ARCHITECTURE = {
        "V100 SXM2": (80, 1024, 1.53),
        "V100 PCIe": (80, 1024, 1.38),
        "V100S PCIe": (80, 1024, 1.597),
        "T4": (40, 1024, 1.59),
        "A100": (108, 2048, 1.41),
        "A30": (56, 2048, 1.44),
        "A10": (72, 1024, 1.695),
        "A40": (84, 1024, 1.74),
        "RTX 3090": (82, 512, 1.695),
        "RTX 4090": (128, 512, 2.52),
        "L4": (58, 1024, 2.04),
        "L40S": (142, 1024, 2.52),
        "H100 SXM": (132, 4096, 1.83),
        "H100 PCIe": (114, 4096, 1.62),
        "H100 NVL": (132, 4096, 1.545),
        "H200": (132, 4096, 1.83),
        "H200 NVL": (132, 4096, 1.545),
        "GH200": (132, 4096, 1.83),
    }

    def test_each_follows_from_its_tensor_cores_on_dense_matrices(self):
        assert set(peaks.read().gpus) == set(self.ARCHITECTURE)
        for title, gpu in peaks.read().gpus.items():
            sms, flops, gigahertz = self.ARCHITECTURE[title]
            dense = sms * flops * gigahertz / 1000
            assert gpu.dense_tflops["fp16"] == pytest.approx(dense, rel=0.03), title
            assert gpu.dense_tflops.get("bf16", gpu.dense_tflops["fp16"]) == pytest.approx(
                gpu.dense_tflops["fp16"]
            )
            # on tensor cores TF32 is half as fast as fp16, and never slower than plain fp32
            tf32 = gpu.dense_tflops.get("tf32", gpu.dense_tflops["fp16"] / 2)
            assert tf32 == pytest.approx(gpu.dense_tflops["fp16"] / 2, rel=0.03), title
            assert gpu.dense_tflops["fp32"] <= tf32

    def test_each_names_its_source_and_is_found_as_nvml_spells_it(self):
        for gpu in peaks.read().gpus.values():
            assert len(gpu.source) > 20
            for name in gpu.names:
                assert peaks.known(f"NVIDIA {name}").tflops == gpu.dense_tflops
        assert peaks.known("Tesla V100-PCIE-32GB").tflops["fp16"] == 112

    def test_the_file_has_no_place_for_a_figure_with_sparsity(self, tmp_path):
        content = yaml.safe_load(peaks.PEAKS.read_text())
        content["gpus"]["A100"]["sparse_tflops"] = {"fp16": 624}
        path = tmp_path / "peaks.yaml"
        path.write_text(yaml.safe_dump(content))
        with pytest.raises(ConfigError, match="gpus.A100.sparse_tflops: unknown key"):
            peaks.read(path)

    def test_a_config_cannot_state_one_for_a_known_gpu(self):
        changed = {**GPU_ROUND, "peaks": {"NVIDIA H200": {"bf16": 1979}}}
        with pytest.raises(ConfigError) as caught:
            plan.load(changed, "mine.yaml")
        assert str(caught.value) == (
            "mine.yaml: peaks.NVIDIA H200.bf16: 1979 is above the dense peak of this GPU, "
            "989.5 TFLOP/s (peaks.yaml); "
            "a figure with sparsity does not apply to what is measured here"
        )
        lower = {**GPU_ROUND, "peaks": {"NVIDIA H200": {"bf16": 800}}}
        assert plan.load(lower).peaks["NVIDIA H200"]["bf16"] == 800


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({CPU: {"fp8": 1.0}}, "'fp8' is not a precision"),
        ({CPU: {"fp32": 0}}, "must be greater than 0"),
        ({CPU: 0.1}, "must be of the type dictionary"),
    ],
)
def test_a_wrong_stated_peak_is_said_with_its_key(wrong, message):
    with pytest.raises(ConfigError) as caught:
        plan.load(config(**TWO, peaks=wrong), "mine.yaml")
    assert message in str(caught.value) and "peaks" in str(caught.value)


def test_limits_name_their_file_and_its_sha256(tmp_path):
    results = write_round(tmp_path, config(**TWO))
    calibrate(results, "node1", MEASURED)
    analyse(results)
    rows = read_table(results / "limits.tsv")
    assert {(row["precision"], row["at_once"]): row["limit"] for row in rows} == MEASURED
    assert {row["source"] for row in rows} == {"nodes/node1.json"}
    assert all(len(row["source_sha256"]) == 64 and row["device_name"] == CPU for row in rows)


def test_the_report_shows_mfu_beside_its_peak_and_the_calibration(tmp_path):
    stated = config(**TWO, peaks={CPU: {"fp32": 0.16}})
    results = write_round(tmp_path, stated, noise=0)
    calibrate(results, "node1", MEASURED)
    rows = analyse(results)
    options = {"config": results / "config.yaml", "round": results, "shared": results.parent}
    options["out"] = results / "report.html"
    assert main(["report", *(t for k, v in options.items() for t in (f"--{k}", str(v)))]) == 0
    page = (results / "report.html").read_text()
    for row in rows:
        assert f">{forms.percent(row['mfu_measured'])}</td>" in page, "as the cell has it"
        assert f">{row['peak_measured_tflops']:.4g}</td>" in page
    assert "Stated peak, TFLOP/s <strong>0.16</strong>" in page, "the same in every cell"
    assert "Computes in <strong>fp32</strong>" in page and "Calibration of the nodes" in page
    assert f"{len(rows)} of {len(rows)} cells with a throughput have the first" in page
