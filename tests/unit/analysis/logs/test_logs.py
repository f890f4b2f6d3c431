"""Every source of logs gives the figures that its lines say, by the clock and as published."""

import pytest
import upstream_logs as upstream
from read_logs import BERT, CLOCK, RESNET, case, imported

MEAN = (1 / 0.1 + 1 / 0.3) / 2


# (source, log, its case, window, estimator -> samples a second)
LOGS = {
    "DLLogger, PyTorch ResNet-50": (
        "dllogger",
        upstream.dllogger_pytorch(),
        case(*RESNET, batch_size=128),
        (20, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * MEAN},
    ),
    "DLLogger, JSON": (
        "dllogger",
        upstream.dllogger_json(),
        case(*RESNET, batch_size=128, precision="amp"),
        (20, 100),
        # of 5 steps from an even one: 3 of 0.1 s and 2 of 0.3 s take 0.9 s, else 1.1 s
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * (5 / 0.9 + 5 / 1.1) / 2},
    ),
    "DLLogger, PyTorch BERT": (
        "dllogger",
        upstream.dllogger_bert_pytorch(),
        case(*BERT, batch_size=32),
        (20, 100),
        {"wall_clock": 256 * CLOCK},
    ),
    "DLLogger, MXNet": (
        "dllogger",
        upstream.dllogger_mxnet(),
        case(*RESNET, batch_size=128, precision="amp"),
        (20, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "DLLogger, TensorFlow 1 ResNet-50": (
        "dllogger",
        upstream.dllogger_tensorflow(),
        case(*RESNET, batch_size=128, devices=1),
        (22, 98),
        {"wall_clock": 128 * CLOCK, "mean_of_rates": 128 * MEAN},
    ),
    "DLLogger, TensorFlow 1 ResNet-50, benchmark": (
        "dllogger",
        upstream.dllogger_tensorflow_benchmark(),
        case(*RESNET, batch_size=16, precision="amp"),
        (21, 100),
        {"wall_clock": 128 * CLOCK, "mean_of_rates": 128 / 0.15},
    ),
    "DLLogger, TensorFlow 1 BERT": (
        "dllogger",
        upstream.dllogger_bert_tensorflow(),
        case(*BERT, batch_size=48, devices=1),
        (20, 100),
        {"wall_clock": 48 * CLOCK, "mean_of_rates": 48 * CLOCK},
    ),
    "DLLogger, TensorFlow 1 BERT, each rank prints the rate of all": (
        "dllogger",
        upstream.dllogger_bert_tensorflow(ranks=8),
        case(*BERT, batch_size=48),
        (20, 100),
        {"wall_clock": 8 * 48 * CLOCK, "mean_of_rates": 8 * 48 * CLOCK},
    ),
    "NVLOG": (
        "dllogger",
        upstream.nvlog(),
        case(*RESNET, batch_size=256, devices=1),
        (21, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "gluon-cv": (
        "gluon-cv",
        upstream.gluon_cv(),
        case(*RESNET, batch_size=64, precision="amp"),
        (20, 100),
        {"mean_of_rates": 512 * CLOCK, "harmonic_mean_of_rates": 512 * CLOCK},
    ),
    "gluon-cv, a line a step": (
        "gluon-cv",
        upstream.gluon_cv(interval=1),
        case(*RESNET, batch_size=64, precision="amp"),
        (20, 100),
        {"mean_of_rates": 512 * MEAN, "harmonic_mean_of_rates": 512 * CLOCK},
    ),
    "NVIDIA MXNet of 2019": (
        "gluon-cv",
        upstream.nvidia_mxnet_2019(),
        case(*RESNET, batch_size=128),
        (20, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "gluon-nlp, eight ranks without a name": (
        "gluon-nlp",
        upstream.gluon_nlp(),
        case(*BERT, batch_size=32),
        (19, 100),
        # 20.5 thousand tokens of a rank as printed, in sequences of 128
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 8 * 20500 / 128},
    ),
    "TimeHistory": (
        "tf-models",
        upstream.time_history(),
        case(*RESNET, batch_size=128),
        (50, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "BenchmarkMetric": (
        "tf-models",
        upstream.benchmark_metric(),
        case(*RESNET, batch_size=128),
        (50, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "TensorFlow 2 BERT": (
        "tf-models",
        upstream.train_step(),
        case(*BERT, batch_size=64),
        (20, 100),
        {"wall_clock": 512 * CLOCK},
    ),
    "PaddleClas": (
        "paddle",
        upstream.paddle_clas(seconds_apart=10),
        case(*RESNET, batch_size=64),
        (21, 100),
        {"wall_clock": 512 * CLOCK / 10, "printed": 8 * 64 / 2},
    ),
    "PaddleClas, static, by its running mean": (
        "paddle",
        upstream.paddle_clas_static(),
        case(*RESNET, batch_size=64, precision="amp"),
        (20, 30),
        {"wall_clock": 512 * CLOCK, "printed": 8 * 64 / upstream.mean_since(4, 50)},
    ),
    "PaddleClas of 2020": (
        "paddle",
        upstream.paddle_clas_2020(),
        case(*RESNET, batch_size=128),
        (20, 100),
        {"wall_clock": 1024 * CLOCK},
    ),
    "PaddleNLP": (
        "paddle",
        upstream.paddle_nlp(),
        case(*BERT, batch_size=32),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "PaddleNLP, total step": (
        "paddle",
        upstream.paddle_nlp_static("total"),
        case(*BERT, batch_size=32, precision="amp"),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "PaddleNLP, tobal step": (
        "paddle",
        upstream.paddle_nlp_static("tobal"),
        case(*BERT, batch_size=32, precision="amp"),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "PaddlePaddle's BERT of 2020": (
        "paddle",
        upstream.paddle_steps(),
        case(*BERT, batch_size=32),
        (20, 100),
        {"mean_of_rates": 256 * CLOCK, "harmonic_mean_of_rates": 256 * CLOCK},
    ),
    "OneFlow-Benchmark, CNNs": (
        "oneflow",
        upstream.oneflow_cnn(),
        case(*RESNET, batch_size=128),
        (20, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "OneFlow-Benchmark, BERT": (
        "oneflow",
        upstream.oneflow_bert(),
        case(*BERT, batch_size=24),
        (20, 100),
        {"wall_clock": 192 * CLOCK, "mean_of_rates": 192 * CLOCK},
    ),
    "OneFlow-Benchmark, GPT": (
        "oneflow",
        upstream.oneflow_gpt(),
        case(*BERT, batch_size=4),
        (20, 100),
        {"wall_clock": 32 * CLOCK, "mean_of_rates": 32 * MEAN},
    ),
    "LiBai": (
        "oneflow",
        upstream.libai(seconds_apart=10),
        case(*BERT, batch_size=4),
        (20, 100),
        {"wall_clock": 32 * CLOCK / 10, "printed": 32 * CLOCK / 10},
    ),
    "MindSpore": (
        "mindspore",
        upstream.mindspore(),
        case(*RESNET, batch_size=32),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "MindSpore, eight ranks without a name": (
        "mindspore",
        upstream.mindspore(ranks=8),
        case(*RESNET, batch_size=32),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "MindSpore, BERT": (
        "mindspore",
        upstream.mindspore_bert(),
        case(*BERT, batch_size=32),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 * CLOCK},
    ),
    "HugeCTR": (
        "hugectr",
        upstream.hugectr(),
        case("workload=wide_deep", "data=criteo", "vocabulary=3200000", batch_size=128),
        (20, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "HugeCTR 3.0": (
        "hugectr",
        upstream.hugectr("[HUGECTR][{:%H:%M:%S}][INFO][RANK0]: "),
        case(*RESNET, batch_size=128),
        (0, 120),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "HugeCTR 2.3": (
        "hugectr",
        upstream.hugectr("[{:%dd%Hh%Mm%Ss}][HUGECTR][INFO]: "),
        case(*RESNET, batch_size=128),
        (20, 100),
        {"wall_clock": 1024 * CLOCK, "mean_of_rates": 1024 * CLOCK},
    ),
    "Megatron-LM": (
        "megatron",
        upstream.megatron(),
        case(*BERT, batch_size=4, precision="amp"),
        (20, 100),
        {"wall_clock": 32 * CLOCK, "mean_of_rates": 32 * CLOCK},
    ),
    "Megatron-LM of 2024": (
        "megatron",
        upstream.megatron(head=" [%Y-%m-%d %H:%M:%S]"),
        case("workload=gpt", "data=openwebtext", batch_size=4, precision="amp"),
        (20, 100),
        {"wall_clock": 32 * CLOCK, "mean_of_rates": 32 * CLOCK},
    ),
    "DeepSpeed of 2020": (
        "deepspeed",
        upstream.deepspeed_2020(),
        case(*BERT, batch_size=32),
        (20, 100),
        {"wall_clock": 256 * CLOCK, "printed": 256 * CLOCK},
    ),
    "DeepSpeed": (
        "deepspeed",
        upstream.deepspeed(),
        case(*BERT, batch_size=32),
        (20, 100),
        # the current rate is a single step's
        {"wall_clock": 256 * CLOCK, "mean_of_rates": 256 / 0.3, "printed": 256 * CLOCK},
    ),
    "MLPerf, ResNet-50: epochs": (
        "mllog",
        upstream.mllog_resnet(),
        ["framework=mxnet", *case(*RESNET, batch_size=16, precision="amp")],
        (3, 8),
        {"wall_clock": 500, "mean_of_rates": 500},
    ),
    "MLPerf, ResNet-50: the rates that NVIDIA adds are of queued work": (
        "mllog",
        upstream.mllog_resnet(throughput=50000.0),
        ["framework=mxnet", *case(*RESNET, batch_size=16, precision="amp")],
        (0, 11),
        {"wall_clock": 500, "mean_of_rates": 50000},
    ),
    "MLPerf, BERT: samples": (
        "mllog",
        upstream.mllog_bert(),
        ["framework=pytorch", *case(*BERT, batch_size=16, precision="amp")],
        (1000, 4000),
        {"wall_clock": 500, "mean_of_rates": 500},
    ),
    "MLPerf, BERT: evaluations that the log does not tell": (
        "mllog",
        upstream.mllog_bert(evaluations=False),
        ["framework=pytorch", *case(*BERT, batch_size=16, precision="amp")],
        (1000, 4000),
        {"wall_clock": 1000 / 3, "mean_of_rates": 1000 / 3},
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_gives_the_figures_that_its_lines_say(name, tmp_path):
    source, log, given, window, expected = LOGS[name]
    rows = imported(tmp_path, source, log, case=given, window=window)
    assert [row["estimator"] for row in rows] == list(expected)  # the wall clock first
    for row in rows:
        assert float(row["value"]) == pytest.approx(expected[row["estimator"]], rel=2e-3), row


# Lines that upstream's own users wrote down, with the figure worked out beside them.
QUOTED = {
    # DLPerf, OneFlow/Classification/ConvNets/resnet50v1.5/extract_cnn_result.py
    "OneFlow on 16 GPUs": (
        "oneflow",
        "batch_size_per_device = 128\ngpu_num_per_node = 8\nnum_nodes = 2\n"
        "train: epoch 0, iter 20, loss: 7.087004, top_1: 0.000000, top_k: 0.000000, "
        "samples/s: 3988.891 1597933942.9863544\n"
        "train: epoch 0, iter 120, loss: 1.050499, top_1: 1.000000, top_k: 1.000000, "
        "samples/s: 5917.583 1597933977.6064055\n",
        ["nodes=2", *RESNET, "precision=fp32", "devices_per_node=8", "batch_size=128"],
        (20, 100),
        2048 * 100 / 34.6200511,
    ),
    # microsoft/DeepSpeed#1825
    "DeepSpeed on one GPU": (
        "deepspeed",
        "[2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, "
        "lr=[5e-05], mom=[[0.9, 0.999]]\n"
        "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, "
        "SamplesPerSec=83.48609168106144, MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"
        "<IPython.core.display.HTML object>\n"
        "[2022-03-11 02:07:14,130] [INFO] [timer.py:189:stop] 0/50, "
        "SamplesPerSec=83.73838805358588, MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n",
        case(*BERT, devices=1, batch_size=128),
        (40, 10),
        1280 / 15.145,
    ),
    # NVIDIA-Merlin/HugeCTR#186; until 4000 there was an evaluation
    "HugeCTR 2.3": (
        "hugectr",
        "[02d07h54m43s][HUGECTR][INFO]: Iter: 3000 Time(1000 iters): 5.381177s Loss: 0.1335 lr:9\n"
        "[86465.5, eval_start, 0.0499898, ]\n"
        "[02d07h54m51s][HUGECTR][INFO]: Evaluation, AUC: 0.767348\n"
        "[02d07h54m51s][HUGECTR][INFO]: Eval Time for 681 iters: 6.449376s\n"
        "[02d07h54m55s][HUGECTR][INFO]: Iter: 4000 Time(1000 iters): 11.822586s Loss: 0.1263 lr:9\n"
        "[02d07h55m01s][HUGECTR][INFO]: Iter: 5000 Time(1000 iters): 5.351002s Loss: 0.1235 lr:9\n"
        "[02d07h55m06s][HUGECTR][INFO]: Iter: 6000 Time(1000 iters): 5.348606s Loss: 0.1231 lr:9\n",
        case("workload=dlrm", "data=criteo", batch_size=8192),
        (4000, 2000),
        65536 * 2000 / 10.699608,
    ),
    # a log of official/vision/image_classification, batch 32
    "TimeHistory": (
        "tf-models",
        "    I0407 21:16:58.541527 139725706671936 keras_utils.py:145] TimeHistory: 43.91 seconds, "
        "72.87 examples/second between steps 0 and 100\n"
        "    I0407 21:17:05.025709 139725706671936 keras_utils.py:145] TimeHistory: 6.46 seconds, "
        "495.19 examples/second between steps 100 and 200\n"
        "    I0407 21:17:11.425594 139725706671936 keras_utils.py:145] TimeHistory: 6.39 seconds, "
        "500.52 examples/second between steps 200 and 300\n",
        case(*RESNET, devices=1, batch_size=32),
        (100, 200),
        32 * 200 / 12.884067,
    ),
    # PaddlePaddle/PaddleClas#369, before and after
    "PaddleClas": (
        "paddle",
        "".join(
            f"2020-11-04 17:{25 + step // 100:02d}:52 INFO: epoch:0  , train step:{step}  , loss: "
            "6.92608, top1: 0.00000, top5: 0.00000, lr: 0.100000, batch_cost: 0.28419 s, "
            "reader_cost: 0.00056 s, ips: 225.20036 images/sec.\n"
            for step in (100, 200, 300)
        ),
        case(*RESNET, devices=1, batch_size=64),
        (101, 200),
        64 * 200 / 120,
    ),
}


@pytest.mark.parametrize("name", QUOTED)
def test_lines_that_others_quoted_give_the_figure_worked_out_by_hand(name, tmp_path):
    source, log, given, window, expected = QUOTED[name]
    rows = imported(tmp_path, source, log, case=given, window=window)
    assert rows[0]["estimator"] == "wall_clock"
    assert float(rows[0]["value"]) == pytest.approx(expected, rel=1e-4)
