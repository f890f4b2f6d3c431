"""Logs as public training scripts write them, made with their own format strings.

The training in them is always the same: odd steps take 0.1 s and even ones 0.3 s, so that step n
ends n x 0.2 s after the start (n even). Throughput by the clock is 5 global batches a second; the
mean of the rates of single steps is (1 / 0.1 + 1 / 0.3) / 2 = 6.67 a second.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

START = datetime(2020, 9, 15, 14, 29, 13, 473765)
STEPS = 150


def end(step: int) -> float:
    """Seconds from the start to the end of a step."""
    return round(0.2 * step - 0.1 * (step % 2), 6)


def at(step: int, start: datetime = START) -> datetime:
    return start + timedelta(seconds=end(step))


def intervals(interval: int, steps: int = STEPS) -> Iterator[tuple[int, float]]:
    """(step, seconds of the steps since the line before) of every line that is printed."""
    for step in range(interval, steps + 1, interval):
        yield step, end(step) - end(step - interval)


def dllogger_pytorch(batch: int = 128, start: datetime = START, steps: int = STEPS) -> str:
    """PyTorch ResNet-50 with print_freq 1, eight devices."""
    text = f"DLL {start} - PARAMETER data : /data/image  batch_size : {batch}  lr : 1.024  "
    text += "fp16 : False  amp : False  distributed : True  world_size : 8 \n"
    text += " ! Weight decay NOT applied to BN parameters \nRUNNING EPOCHS FROM 0 TO 1\n"
    for step, seconds in intervals(1, steps):
        text += f"DLL {at(step, start)} - Epoch: 0 Iteration: {step}  train.loss : {7.1:.5f} "
        text += f" train.total_ips : {8 * batch / seconds:.2f} img/s\n"
    return text


def dllogger_json() -> str:
    """The same as JSON, as the file has it: two records a printed step, and others."""

    def record(seconds: float, kind: str, **fields: object) -> str:
        time = START + timedelta(seconds=seconds)
        written = {"timestamp": str(time.timestamp()), "datetime": str(time), "type": kind}
        return f"DLLL {json.dumps({**written, **fields})}\n"

    settings = {"arch": "resnet50", "batch_size": 128, "amp": True, "world_size": 8}
    text = record(-20, "LOG", step="PARAMETER", data=settings)
    text += record(-19, "METADATA", metric="lr", metadata={})
    for step, seconds in intervals(5):
        rate = 8 * 128 * 5 / seconds
        data = {"train.loss": 7.0, "train.total_ips": rate}
        text += record(end(step), "LOG", step=[0, step], data=data)
        data = {"train.compute_ips": 1.01 * rate, "train.data_time": 0.0005}
        text += record(end(step) + 0.0001, "LOG", step=[0, step], data=data)
    text += record(31, "LOG", step=[0, STEPS, 5], data={"val.loss": 7.0, "val.total_ips": 9999.0})
    return text + record(32, "LOG", step=[0], data={"train.loss": 7.0, "train.total_ips": 5000.0})


def dllogger_bert_pytorch() -> str:
    text = f"DLL {START} - PARAMETER batch_size_per_gpu : 32 \n"
    for step, _ in intervals(10):
        text += (
            f"DLL {at(step)} - Training Epoch: 0 Training Iteration: {step}  average_loss : 10.1"
        )
        text += "  step_loss : 9.8  learning_rate : 1e-05 \n"
    return text


def dllogger_mxnet() -> str:
    """disp_batches 20: labels 19, 39, …"""
    return "".join(
        f"DLL {at(step)} - Epoch: 0 Iteration: {step - 1}  train.loss : 6.9 "
        f" train.ips : {8 * 128 * 20 / seconds} images/s train.lr : 0.1 \n"
        for step, seconds in intervals(20)
    )


def dllogger_tensorflow() -> str:
    """TensorFlow 1 ResNet-50 prints nothing of its first 20 steps, and the global step from 0."""
    return "".join(
        f"DLL {at(step)} - Epoch: 0 Iteration: {step - 1}  imgs_per_sec : {128 / seconds} "
        " cross_entropy : 7.0  l2_loss : 0.7  total_loss : 7.7  learning_rate : 0.1 \n"
        for step, seconds in intervals(1)
        if step > 20
    )


def dllogger_bert_tensorflow(ranks: int = 1) -> str:
    """Every rank prints the rate of all ranks."""
    return "".join(
        f"DLL {at(step)} - Iteration: {step}  "
        + (f"Rank : {rank}  " if ranks > 1 else "")
        + f"throughput_train : {ranks * 48 * 10 / seconds:.3f} seq/s mlm_loss : 8.9600 "
        "nsp_loss : 0.7660  total_loss : 9.7250  avg_loss_step : 9.7250  learning_rate : 1e-05 \n"
        for step, seconds in intervals(10)
        for rank in range(ranks)
    )


def nvlog() -> str:
    """log_every 10: labels 0, 10, 20, …, a line a metric."""
    text = ""
    for step in range(1, STEPS, 10):
        head = f":::NVLOGv0.2.3 resnet {at(step).timestamp():.9f} (training_hooks.py:"
        text += f"{head}100) iteration: {step - 1}\n"
        text += f"{head}101) imgs_per_sec: {256 / 0.2}\n"
        text += f"{head}104) total_loss: 9.771023750305176\n"
    return text


def gluon_cv(interval: int = 10) -> str:
    """Its logger writes bare messages."""
    text = "Namespace(batch_size=64, dtype='float16', model='resnet50_v1b', num_gpus=8)\n"
    for step, seconds in intervals(interval):
        text += f"Epoch[0] Batch [{step - 1}]\tSpeed: {8 * 64 * interval / seconds:f} samples/sec\t"
        text += f"accuracy={0.001:f}\tlr={0.1:f}\n"
    return text


def nvidia_mxnet_2019() -> str:
    return "".join(
        f"{at(step):%Y-%m-%d %H:%M:%S},{at(step).microsecond // 1000:03d}:INFO: Epoch[0] Batch "
        f"[{step - 20}-{step - 1}]\tSpeed: {8 * 128 * 20 / seconds} samples/sec\tLR: 0.1\t"
        "loss: 6.900000\taccuracy: 0.001000\n"
        for step, seconds in intervals(20)
    )


def gluon_nlp(ranks: int = 8) -> str:
    """log_interval 10: labels 9, 19, …; each rank prints its own tokens, and no rank its name."""
    text = "INFO:root:Namespace(batch_size=32, dtype='float32', log_interval=10)\n"
    for step in range(9, STEPS, 10):
        seconds = 10 * 0.2
        for _ in range(ranks):
            text += f"INFO:root:[step {step}]\tmlm_loss={9.9:.5f}\tmlm_acc={0.1:.5f}\t"
            text += f"nsp_loss={0.7:.5f}\tnsp_acc={50:.3f}\t"
            text += f"throughput={32 * 128 * 10 / seconds / 1000:.1f}K tks/s\tlr={1e-5:.7f} "
            text += f"time={seconds:.2f}, latency={seconds * 100:.1f} ms/batch\n"
    return text


def absl(step: int, start: datetime = START) -> str:
    return f"I{at(step, start):%m%d %H:%M:%S.%f} 139875177744192 keras_utils.py:145] "


def time_history(start: datetime = START) -> str:
    return "".join(
        f"{absl(step, start)}TimeHistory: {seconds:.2f} seconds, {8 * 128 * 50 / seconds:.2f} "
        f"examples/second between steps {step - 50} and {step}\n"
        for step, seconds in intervals(50)
    )


def benchmark_metric() -> str:
    return "".join(
        f"{absl(step)}BenchmarkMetric: {{'global step':{step}, 'time_taken': {seconds:f},"
        f"'examples_per_second': {8 * 128 * 50 / seconds:f}}}\n"
        for step, seconds in intervals(50)
    )


def train_step() -> str:
    """The loop of BERT, and the callback beside it."""
    return "".join(
        f"{absl(step)}Train Step: {step}/{STEPS}  / loss = 9.8\n"
        + (f"{absl(step)}TimeHistory: 20.00 seconds, 5 examples/second between steps 0 and 100\n")
        * (step == 100)
        for step, _ in intervals(1)
    )


def paddle_clas(interval: int = 10, seconds_apart: float = 1.0) -> str:
    """Whole seconds, in colours; the rate is one card's mean."""
    return "".join(
        f"[{START + timedelta(seconds=seconds_apart * end(step)):%Y/%m/%d %H:%M:%S}] ppcls INFO: "
        f"\x1b[32m[Train][Epoch 1/120][Iter: {step - 1}/2502]lr(Piecewise): {0.1:.8f}, "
        f"top1: {0.1:.5f}, CELoss: {6.9:.5f}, loss: {6.9:.5f}, batch_cost: {0.2:.5f}s, "
        f"reader_cost: {0.01:.5f}, ips: {64 / (0.2 * seconds_apart):.5f} samples/s, eta: 1:10:00"
        "\x1b[0m\n"
        for step in range(1, STEPS, interval)
    )


def paddle_clas_2020() -> str:
    return "".join(
        f"{at(step):%Y-%m-%d %H:%M:%S},{at(step).microsecond // 1000:03d}-INFO: epoch:0   train "
        f"step:{step - 1:<4d} loss:  6.8833 top1: 0.0000 lr: 0.100000 elapse: {0.2:.3f}s\n"
        for step in range(1, STEPS + 1)
    )


def paddle_nlp() -> str:
    return "".join(
        f"[{at(step):%Y-%m-%d %H:%M:%S},{at(step).microsecond // 1000:03d}] [    INFO] - "
        f"global step: {step}, epoch: 0, batch: {step - 1}, loss: {9.9:f}, "
        f"avg_reader_cost: {0.001:.5f} sec, avg_batch_cost: {seconds / 10:.5f} sec, "
        f"avg_samples: {32:.5f}, ips: {32 * 10 / seconds:.5f} sequences/sec\n"
        for step, seconds in intervals(10)
    )


def paddle_steps() -> str:
    """What the rate was before: steps, with no time."""
    return "".join(
        f"epoch: 0, progress: 1/1, step: {step}, loss: {9.9:f}, ppl: {9:f}, next_sent_acc: {1:f}, "
        f"speed: {10 / seconds:f} steps/s, file: wiki.gz\n"
        for step, seconds in intervals(10)
    )


def oneflow_cnn() -> str:
    text = "batch_size_per_device = 128\ngpu_num_per_node = 8\nnum_nodes = 1\nuse_fp16 = False\n"
    for step, seconds in intervals(20):
        rate = 8 * 128 * 20 / seconds
        text += f"train: epoch 0, iter {step}, loss: {7.0:.6f}, top_1: {0:.6f}, top_k: {0:.6f}, "
        text += f"samples/s: {rate:.3f} {at(step).timestamp()}\n"
    return text


def oneflow_bert() -> str:
    return "".join(
        f"step: {step - 1}, total_loss: {9.7:.3f}, mlm_loss: {8.9:.3f}, nsp_loss: {0.7:.3f}, "
        f"throughput: {8 * 24 * 10 / seconds:.3f} {at(step).timestamp()}\n"
        for step, seconds in intervals(10)
    )


def oneflow_gpt() -> str:
    text = "global_batch_size ............................... 32\nTraining...\n"
    text += "| step     | micro_batches   | samples         | throughput | latency    | loss \n"
    text += f"| {'-' * 8} | {'-' * 15} | {'-' * 15} | {'-' * 10} | {'-' * 10} | {'-' * 10} |\n"
    for step, seconds in intervals(1):
        text += f"| {step:<8d} | {step:<15d} | {32 * step:<15d} | {32 / seconds:<10.5f} "
        text += f"| {seconds:<10.5f} | {11.2:<10.5f} |\n"
    return text


def libai(seconds_apart: float = 1.0) -> str:
    """Whole seconds and no year; the rate is the mean since training began."""
    return "".join(
        f"[{START + timedelta(seconds=seconds_apart * end(step)):%m/%d %H:%M:%S} lb.utils.events]: "
        f" eta: 0:00:22  iteration: {step - 1}/220  consumed samples: {32 * step}  "
        f"total_loss: 9.912  time: {0.2 * seconds_apart:.4f}({32 / 0.2 / seconds_apart:.2f})  "
        "data_time: 0.0012  lr: 1.00e-04  \n"
        for step, _ in intervals(10)
    )


def mindspore(ranks: int = 1) -> str:
    """Epochs of 20 steps; loss and time on two lines, of each rank."""
    text = ""
    for epoch, (step, seconds) in enumerate(intervals(20), start=1):
        text += f"epoch: {epoch} step: 20, loss is 7.01\n" * ranks
        line = f"epoch time: {1000 * seconds:5.3f} ms, per step time: {50 * seconds:5.3f} ms\n"
        text += line * ranks
        del step
    return text


def mindspore_bert() -> str:
    text = ""
    for step, seconds in intervals(20):
        text += f"epoch: 0, current epoch percent: {step / 4000:.3f}, step: {step}, outputs are "
        text += "(Tensor(shape=[], dtype=Float32, value= 10.5), Tensor(shape=[], value= False))\n"
        text += f"epoch time: {1000 * seconds:5.3f} ms, per step time: {50 * seconds:5.3f} ms\n"
    return text


def hugectr(head: str = "[HCTR][{:%H:%M:%S.123}][INFO][RK0][main]: ") -> str:
    return "".join(
        f"{head.format(at(step))}Iter: {step} Time(10 iters): {seconds}s Loss: 0.125152 lr:0.001\n"
        for step, seconds in intervals(10)
    )


def megatron(global_batch: int = 32, head: str = "") -> str:
    text = "  world_size ...................................... 8\n"
    text += "  fp16 ............................................ True\n"
    for step, seconds in intervals(10):
        text += f"{head and at(step).strftime(head)} iteration {step:8d}/{500000:8d} |"
        text += f" consumed samples: {step * global_batch:12d} |"
        text += f" elapsed time per iteration (ms): {100 * seconds:.1f} |"
        text += f" learning rate: {1e-4:.3E} | global batch size: {global_batch:5d} |"
        text += (
            f" lm loss: {9.9:.6E} | loss scale: {4096:.1f} | number of skipped iterations:   0 |\n"
        )
        text += "time (ms) | forward-compute: 15.33 | optimizer: 2.01\n"
    return text


def deepspeed_2020() -> str:
    """The rate is the mean since training began."""
    return "".join(
        f"[{at(step):%Y-%m-%d %H:%M:%S},{at(step).microsecond // 1000:03d}] [INFO] "
        f"[logging.py:60:log_dist] [Rank 0] step={step}, skipped=5, lr=[0.0001], mom=[[0.8]]\n"
        f"[{at(step):%Y-%m-%d %H:%M:%S},{at(step).microsecond // 1000:03d}] [INFO] "
        f"[timer.py:157:stop] 0/{step}, SamplesPerSec={8 * 32 / 0.2}\n"
        for step, _ in intervals(10)
    )


def deepspeed() -> str:
    """The current rate is the last step's, which is an even one and takes 0.3 s."""
    return "".join(
        f"[{at(step):%Y-%m-%d %H:%M:%S},{at(step).microsecond // 1000:03d}] [INFO] "
        f"[timer.py:258:stop] epoch=0/micro_step={2 * step}/global_step={step}, "
        f"RunningAvgSamplesPerSec={8 * 32 / 0.2}, CurrSamplesPerSec={8 * 32 / 0.3}, "
        "MemAllocated=0.02GB, MaxMemAllocated=0.97GB\n"
        for step, _ in intervals(10)
    )
