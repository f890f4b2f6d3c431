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
    """disp_batches 20: labels 19, 39, …; the batch of all devices, and float16 without amp."""
    text = f"DLL {START} - PARAMETER arch : resnetv15  gpus : [0, 1, 2, 3, 4, 5, 6, 7]  "
    text += "kv_store : horovod  dtype : float16  amp : False  batch_size : 1024  num_epochs : 1 \n"
    return text + "".join(
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


def dllogger_tensorflow_benchmark() -> str:
    """mode training_benchmark, display_every 10: from step 20, a rate of the last step only."""
    text = f"DLL {START} - PARAMETER arch : resnet50  batch_size : 16  amp : True  cpu : False \n"
    text += "Model HParams:\ndtype <dtype: 'float32'>\nNum GPUs 8\nPer-GPU Batch Size 16\n"
    for step in range(21, STEPS + 1, 10):
        text += f"DLL {at(step)} - (0, {step - 1}) total_ips : {8 * 16 / 0.15} \n"
    return text + f"DLL {at(STEPS)} - () train_throughput : {8 * 16 * 6.7} images/s\n"


def dllogger_bert_2023(skipped: int = 3) -> str:
    """No loss of the step; the first steps are skipped, and printed again."""
    text = "+ python3 -m torch.distributed.launch --nproc_per_node=8 run_pretraining.py "
    text += "--train_batch_size=320 --gradient_accumulation_steps=10 --fp16\n"
    text += f'DLL {START} - PARAMETER Config : ["Namespace(amp=False, fp16=True, '
    text += 'gradient_accumulation_steps=10, n_gpu=1, train_batch_size=32)"] \n'
    text += f"DLL {START} - PARAMETER batch_size_per_gpu : 32 \n"
    for number, (step, _) in enumerate(intervals(1)):
        label = 1 + max(0, number - skipped)
        text += f"DLL {at(step)} - Training Epoch: 0 Training Iteration: {label}  average_loss : "
        text += f"10.1  learning_rate : 0.001  skipped_steps : {min(number, skipped)} \n"
    return text


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
        f"top1: {0.1:.5f}, CELoss: {6.9:.5f}, loss: {6.9:.5f}, batch_cost: "
        f"{seconds_apart * mean_since(5, step):.5f}s, "
        f"reader_cost: {0.01:.5f}, ips: {64 / (0.2 * seconds_apart):.5f} samples/s, eta: 1:10:00"
        "\x1b[0m\n"
        for step in range(1, STEPS, interval)
    )


def mean_since(step: int, later: int) -> float:
    return (end(later) - end(step)) / (later - step) if later > step else end(later) / later


def paddle_clas_static(amp: bool = True) -> str:
    """ppcls/static: whole seconds, labels from 1, means since the fourth step; its settings."""
    about: dict[str, dict[str, object]] = {
        "Global": {"epochs": 8, "use_dali": True},
        **({"AMP": {"scale_loss": 128.0, "level": "O2"}} if amp else {}),
        "Arch": {"name": "ResNet50"},
        "DataLoader": {
            "Train": {"sampler": {"batch_size": 64, "shuffle": True}},
            "Eval": {"sampler": {"batch_size": 16, "shuffle": False}},
        },
        "Infer": {"batch_size": 10},
    }
    head = f"[{START:%Y/%m/%d %H:%M:%S}] ppcls INFO: "
    text = f"LAUNCH INFO {START} nnodes: 1\nLAUNCH INFO {START} Run Pod: xyz, replicas 8, status "
    text += f"ready\n{head}\n{'=' * 59}\n{head}"
    text += head.join(f"{line}\n" for line in _nested(about)) + f"{head}{'-' * 60}\n"
    text += f"{head}DALI fused Operator conversion(Train)\n"
    for step, _ in intervals(10):
        cost = mean_since(4, step)
        text += f"[{at(step):%Y/%m/%d %H:%M:%S}] ppcls INFO: epoch:0   train step:{step:<4d} "
        text += f"lr: 0.100000, loss:  7.2072 top1:  0.0000 top5: -0.0039 batch_cost: {cost:.5f} s,"
        text += f" reader_cost: 0.00063 s, ips: {64 / cost:.5f} samples/sec.\n"
    return text


def _nested(about: dict[str, dict[str, object]], depth: int = 0) -> Iterator[str]:
    for key, value in about.items():
        if isinstance(value, dict):
            yield f"{'    ' * depth}{key} : "
            yield from _nested(value, depth + 1)
        else:
            yield f"{'    ' * depth}{key} : {value}"


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


def paddle_nlp_static(word: str = "total") -> str:
    """BERT of static/: no times; 'tobal step' until 2022."""
    text = "Namespace(batch_size=32, gradient_merge_steps=88, use_amp=True, use_pure_fp16=False)\n"
    for step, seconds in intervals(10):
        text += f"{word} step: {step}, epoch: 0, batch: {step - 1}, loss: {11.1:f}, "
        text += f"avg_reader_cost: {0.0001:.5f} sec, avg_batch_cost: {seconds / 10:.5f} sec, "
        text += f"avg_samples: {32:.5f}, ips: {32 * 10 / seconds:.5f} sequences/sec\n"
    return text


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


def megatron(global_batch: int = 32, head: str = "", skipped: int = 0) -> str:
    text = "  world_size ...................................... 8\n"
    text += "  fp16 ............................................ True\n"
    for step, seconds in intervals(10):
        text += f"{head and at(step).strftime(head)} iteration {step:8d}/{500000:8d} |"
        text += f" consumed samples: {step * global_batch:12d} |"
        text += f" elapsed time per iteration (ms): {100 * seconds:.1f} |"
        text += f" learning rate: {1e-4:.3E} | global batch size: {global_batch:5d} |"
        text += (
            f" lm loss: {9.9:.6E} | loss scale: {4096:.1f} | number of skipped iterations: "
            f"{skipped:3d} | number of nan iterations:   0 |\n"
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


def mllog(key: str, milliseconds: float, value: object = None, **about: object) -> str:
    record = {
        "namespace": "",
        "time_ms": round(1000 * START.timestamp() + milliseconds),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": {"file": "train.py", "lineno": 7, **about},
    }
    return f":::MLLOG {json.dumps(record)}\n"


def mllog_resnet(throughput: float = 0.0) -> str:
    """Blocks of 3, 4, 4, … epochs of 1000 samples, 2 s each; then 5 s of evaluation."""
    text = mllog("submission_benchmark", 0, "resnet") + mllog("global_batch_size", 0, 128)
    text += mllog("d_batch_size", 0, 16) + mllog("gradient_accumulation_steps", 0, 1)
    text += mllog("train_samples", 1, 1000) + mllog("run_start", 9)
    now, first = 10, 1
    for count in (3, 4, 4):
        text += mllog("block_start", now, first_epoch_num=first, epoch_count=count)
        for epoch in range(first, first + count):
            text += mllog("epoch_start", now + 2000 * (epoch - first), epoch_num=epoch)
            # work is only queued then: what it took, the log says at the evaluation
            text += mllog("epoch_stop", now + 2000 * (epoch - first) + 20, epoch_num=epoch)
            if throughput:
                text += mllog("throughput", now + 2000 * (epoch - first) + 20, throughput)
        now += 2000 * count
        text += mllog("eval_start", now, epoch_num=first + count - 1)
        now += 5000
        text += mllog("eval_stop", now, epoch_num=first + count - 1)
        text += mllog("block_stop", now, first_epoch_num=first)
        first += count
    return text + mllog("run_stop", now, status="success")


def mllog_bert(evaluations: bool = True) -> str:
    """After every 1000 samples, which take 2 s, an evaluation of 1 s, which not all logs tell."""
    text = mllog("submission_benchmark", 0, "bert") + mllog("global_batch_size", 0, 128)
    text += mllog("epoch_start", 10, epoch_num=0)
    text += mllog("block_start", 10, first_epoch_num=1, epoch_count=1)
    for number in range(1, 6):
        now, about = 10 + 3000 * number - 1000, {"epoch_num": 1000 * number}
        text += mllog("eval_start", now, **about) * evaluations
        text += mllog("eval_stop", now + 1000, **about) * evaluations
        text += mllog("eval_accuracy", now + 1000, 0.5, **about)
    return text + mllog("block_stop", 15020, first_epoch_num=1)
