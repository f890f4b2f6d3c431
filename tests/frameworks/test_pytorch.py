"""PyTorch: float16's scaler, the optimisers under it, batches ahead of the step, DDP's buffers."""

import json

import in_framework
import pytest

SKIPPED = """
import torch
torch.use_deterministic_algorithms(True)  # what is made uninitialised is NaN
implementation = workloads.load(run.workload, "pytorch")

def trained(gradients):
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 2)
    optimizer = implementation.optimizer(run, network)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=10**6)
    for gradient in gradients:
        scale = scaler.scale(torch.ones(()))
        for parameter in network.parameters():
            parameter.grad = torch.full_like(parameter, gradient) * scale
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return [parameter.tolist() for parameter in network.parameters()]

print(json.dumps([trained(each) for each in ([], [float("inf")], [1.0, 0.5],
                                            [float("inf"), 1.0, 0.5], [1.0, float("inf"), 0.5])]))
"""


@pytest.mark.parametrize("workload", ["resnet50", "bert", "electra"])
def test_a_step_that_overflows_leaves_weights_and_moments_as_they_were(workload, environments):
    run = in_framework.rank("pytorch", workload)
    found = json.loads(in_framework.printed(run, SKIPPED, environments / "pytorch.cpu"))
    start, skipped, two, skipped_first, skipped_between = found
    assert skipped == start != two
    assert skipped_first == skipped_between == two


BUCKETS = """
import torch
from dlperf.frameworks.pytorch import parallel

megabytes = [12, 12, 12, 80, 1, 1, 40, 40, 40, 0.001]
parameters = [torch.empty(int(each * 2**18)) for each in megabytes]
sizes = [[round(each.numel() / 2**18, 3) for each in bucket] for bucket in
         parallel.buckets(parameters)]
few = [len(bucket) for bucket in parallel.buckets(parameters[:2])]
unready = object.__new__(parallel.Averages)
unready._buckets, unready._sent = [parameters], []
try:
    unready.finish()
except RuntimeError as error:
    print(json.dumps([sizes, few, str(error)]))
"""


def test_gradients_are_exchanged_in_buckets_that_are_alike_and_all_have_to_be_there(environments):
    run = in_framework.rank("pytorch", "gpt")
    sizes, few, error = json.loads(in_framework.printed(run, BUCKETS, environments / "pytorch.cpu"))
    assert sum(sizes, []) == [12, 12, 12, 80, 1, 1, 40, 40, 40, 0.001]
    assert sizes == [[12, 12, 12], [80], [1, 1, 40], [40], [40, 0.001]]
    assert few == [2]
    assert error == "not all parameters have a gradient of each micro-step"


TABLE = """
import torch
from dlperf.frameworks.pytorch import sparse

def trained(gradients):
    torch.manual_seed(0)
    network = torch.nn.ModuleList([torch.nn.Linear(3, 2), torch.nn.Embedding(5, 2)])
    table = network[1].weight
    optimizer = sparse.Adam(network[0].parameters(), [table], 0.1, (0.9, 0.999), 1e-7)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=10**6)
    for gradient in gradients:
        scale = scaler.scale(torch.ones(()))
        for parameter in network[0].parameters():
            parameter.grad = torch.full_like(parameter, gradient) * scale
        rows = torch.full((3, 2), gradient) * scale
        table.grad = sparse.gradient(table, torch.tensor([3, 1, 3]), rows)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return [parameter.tolist() for parameter in network.parameters()]

print(json.dumps([trained(each) for each in ([], [float("inf")], [1.0, 0.5],
                                            [float("inf"), 1.0, 0.5], [1.0, float("inf"), 0.5])]))
"""


def test_a_step_that_overflows_leaves_tables_and_the_count_of_steps_as_they_were(environments):
    run = in_framework.rank("pytorch", "wide_deep")
    found = json.loads(in_framework.printed(run, TABLE, environments / "pytorch.cpu"))
    start, skipped, two, skipped_first, skipped_between = found
    assert skipped == start != two
    assert skipped_first == skipped_between == two
    rests = [before == after for before, after in zip(start[-1], two[-1], strict=True)]
    assert rests == [True, False, True, False, True]


SUMMED = """
import torch
from dlperf.frameworks.pytorch import sparse

torch.manual_seed(0)
ids, rows = torch.randint(0, 9, (40,)), torch.randn(40, 3)
once = [each.tolist() for each in sparse.summed(ids, rows)]
repeated = [each.tolist() for each in sparse.summed_repeatedly(ids, rows)]
print(json.dumps([ids.tolist(), once, repeated]))
"""


def test_on_a_gpu_each_id_has_the_sum_of_its_rows_as_often_as_it_is_given(environments):
    run = in_framework.rank("pytorch", "wide_deep")
    found = in_framework.printed(run, SUMMED, environments / "pytorch.cpu")
    given, (ids, sums), (repeated, each) = json.loads(found)
    assert ids == sorted(set(given)) and repeated == sorted(given)
    of = dict(zip(ids, sums, strict=True))
    for place, row in zip(repeated, each, strict=True):
        assert row == pytest.approx(of[place], abs=1e-6)


TRAINED = """
import torch
from dlperf.frameworks.pytorch import training as framework
from dlperf.workloads.resnet50.pytorch import optimizer

frameworks.load("pytorch").start(run)
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 1000))

def loss(run, network, images, labels):
    return torch.nn.functional.cross_entropy(network(images), labels)

weights = framework.Weights(run, dict(network.named_parameters()))
work = framework.train(run, network, loss, optimizer(run, network), weights, framework.put, "NHWC")
before = network[1].weight.detach().clone()
losses = []
for _ in range(2):
    work.batches.redraw(7, 1)  # the same batch again
    losses.append(work.loss(work.step()))
print(json.dumps([work.parity, bool((network[1].weight == before).all()), losses]))
"""


def trained(environments, **changes):
    run = in_framework.rank("pytorch", **changes)
    return json.loads(in_framework.printed(run, TRAINED, environments / "pytorch.cpu"))


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", "float32"), ("fp64", "float64"), ("amp", "bfloat16"), ("amp_fp16", "float16")],
)
def test_gradients_are_scaled_in_float16_alone(precision, dtype, environments):
    parity, unchanged, losses = trained(environments, precision=precision, loss_scale=8.0)
    assert parity["compute_dtype"] == dtype
    scaled = precision == "amp_fp16"
    assert parity["loss_scaling"] == ("dynamic" if scaled else "none")
    assert parity["loss_scale"] == (8.0 if scaled else None)
    assert not unchanged
    assert losses[1] < losses[0]


def test_the_scale_starts_where_the_run_says(environments):
    """At 2^100 every gradient overflows, and both steps are left out."""
    _, unchanged, losses = trained(environments, precision="amp_fp16", loss_scale=2.0**100)
    assert unchanged
    assert losses[0] == losses[1]


AHEAD = """
import threading, time
import torch
from dlperf.loaders import DataError
from dlperf.frameworks.pytorch.training import Ahead

class Batches:
    pooled = on_device = False
    waited_seconds, first_batch_sha256, count, closed = 99.0, "digest", 0, False
    def next(self):
        if self.closed or self.count == 3:
            raise DataError("no batch")
        time.sleep(0.2)
        self.count += 1
        return [self.count]
    def fill(self):
        pass
    def close(self):
        self.closed = True

def put(number):
    return [number, threading.current_thread() is threading.main_thread()]

batches = Batches()
ahead = Ahead(batches, put, None)
ahead.fill()
ready = batches.count
first = ahead.next()
at_once = ahead.waited_seconds
second = ahead.next()
waited = ahead.waited_seconds
third = ahead.next()
try:
    ahead.next()
    said = ""
except DataError as error:
    said = str(error)
ahead.close()
print(json.dumps([ready, at_once, waited, [first, second, third], said, ahead.first_batch_sha256]))
"""


def test_batches_are_put_on_the_gpu_one_ahead_by_another_thread(environments):
    run = in_framework.rank("pytorch")
    found = json.loads(in_framework.printed(run, AHEAD, environments / "pytorch.cpu"))
    ready, at_once, waited, batches, said, digest = found
    assert ready == 1
    assert at_once < 0.1 < waited < 1, "the step's own waiting, not the thread's"
    assert batches == [[1, False], [2, False], [3, False]]
    assert (said, digest) == ("no batch", "digest")


BUFFERS = """
from torch.nn.parallel import DistributedDataParallel
from dlperf.frameworks.pytorch.training import buffers_apart

def older(module, broadcast_buffers=True):
    pass

def newer(module, broadcast_buffers=None, forward_sync_buffers=None):
    pass

print(json.dumps([buffers_apart(each) for each in (older, newer, DistributedDataParallel)]))
"""


def test_statistics_stay_apart_in_each_version_of_ddp(environments):
    run = in_framework.rank("pytorch")
    older, newer, installed = json.loads(
        in_framework.printed(run, BUFFERS, environments / "pytorch.cpu")
    )
    assert older == {"broadcast_buffers": False}
    assert newer == {"forward_sync_buffers": False}
    assert installed in (older, newer)
