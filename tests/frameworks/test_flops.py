"""FLOPs a sample, as the workloads' facts state them, against PyTorch's own counter.

The counter (torch.utils.flop_counter) sees each product and convolution that the project's own
models ask for, forward and backward, at a multiply-add as 2. On the meta device none is computed.
"""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS, snakemake

from dlperf import workloads

COUNT = """
import json, sys
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from dlperf import workloads

def integers(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="meta")

def asked_of(network, workload, size):
    # (outputs, loss)
    if workload == "resnet50":
        images = torch.empty(1, 3, size, size, device="meta")
        value = lambda: torch.nn.functional.cross_entropy(network(images), integers(1))
        return lambda: network(images), value
    if workload == "electra_squad":
        batch = *(integers(1, size) for _ in range(3)), torch.empty(1, size, device="meta")
        answer = integers(1), integers(1), torch.empty(1, device="meta"), integers(1)
        return lambda: network.read(*batch), lambda: network(*batch, *answer)
    places = workloads.facts("bert").masked_positions(size)
    predicted = torch.empty(1, places, device="meta")
    masked = integers(1, places), integers(1, places), predicted
    sentence = integers(1, size), integers(1, size), integers(1, size)
    value = lambda: network(*sentence, *masked, integers(1))
    return lambda: network.encode(*sentence), value

found = []
for workload, size, constants in json.loads(sys.argv[1]):
    facts = workloads.facts(workload)
    before = {name: getattr(facts, name) for name in constants}
    vars(facts).update(constants)
    implementation = workloads.load(workload, "pytorch")
    network = {"resnet50": "ResNet50", "bert": "Bert", "electra_squad": "Reader"}[workload]
    network = getattr(implementation, network)().to("meta")
    forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
    outputs, value = asked_of(network, workload, size)
    with sdpa_kernel(SDPBackend.MATH):  # plain products, none of them computed a second time
        with forward:
            outputs()
        with both:
            value().backward()
    found.append([forward.get_total_flops(), both.get_total_flops()])
    vars(facts).update(before)
print(json.dumps(found))
"""
#: workload, image size or sequence length, constants of its facts that are changed
ASKED = [
    ["resnet50", 224, {}],
    ["resnet50", 64, {}],
    ["resnet50", 75, {}],  # sides that no stride divides
    ["resnet50", 64, {"CLASSES": 10}],
    ["bert", 128, {}],
    ["bert", 32, {}],
    ["bert", 512, {"LAYERS": 2, "VOCABULARY": 1000}],
    ["electra_squad", 384, {}],
    ["electra_squad", 48, {"BEAM": 3}],
]


@pytest.fixture(scope="module")
def counted() -> list[tuple[int, int]]:
    """(an inference, a training's forward and backward) of each of ASKED, by PyTorch's counter."""
    name = "results/environments/pytorch.cpu/env.json"
    snakemake("--", name)
    environment = json.loads((ROOT / name).read_text())
    return count(ROOT / environment["interpreter"])


def count(interpreter: Path) -> list[tuple[int, int]]:
    done = subprocess.run(
        [str(interpreter), "-c", COUNT, json.dumps(ASKED)],
        env={"PYTHONPATH": str(SCRIPTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [tuple(pair) for pair in json.loads(done.stdout)]


def test_flops_a_sample_are_those_that_pytorch_counts(counted, monkeypatch):
    for (workload, size, constants), (forward, both) in zip(ASKED, counted, strict=True):
        facts = workloads.facts(workload)
        with monkeypatch.context() as patched:
            for name, value in constants.items():
                patched.setattr(facts, name, value)
            dimensions = {next(iter(facts.DIMENSIONS)): size}
            assert facts.flops_per_sample(dimensions, "infer") == forward
            stated = facts.flops_per_sample(dimensions, "train")
            if workload == "resnet50":  # nobody asks for the gradient of the images
                stated -= 2 * facts.multiply_adds(size)["conv1"]
            assert stated == both, (workload, size)
