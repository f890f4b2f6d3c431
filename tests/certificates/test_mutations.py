"""The smallest wrong settings do not pass: real runs of an implementation with one thing changed.

Each mutation replaces a piece of an implementation's source in a copy of the package; the reference
stays what it is.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT, SCRIPTS


class Mutation(NamedTuple):
    name: str
    framework: str
    compiler: str
    old: str
    new: str
    ranks: int = 1


MUTATIONS = [
    Mutation(
        "v1 in place of v1.5",
        "pytorch",
        "none",
        "self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)",
        "self.conv1, self.bn1 = conv(inputs, width, 1, stride), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3), batch_norm(width)",
    ),
    Mutation("momentum 0.9", "pytorch", "none", "momentum=facts.MOMENTUM", "momentum=0.9"),
    Mutation("epsilon 1e-6", "pytorch", "none", "eps=facts.BATCH_NORM_EPSILON", "eps=1e-6"),
    Mutation(
        "no label smoothing",
        "pytorch",
        "none",
        "label_smoothing=facts.LABEL_SMOOTHING",
        "label_smoothing=0.0",
    ),
    Mutation(
        "decay on biases",
        "pytorch",
        "none",
        '{"params": others}',
        '{"params": others, "weight_decay": facts.WEIGHT_DECAY}',
    ),
    Mutation(
        "batch-norm over all ranks",
        "pytorch",
        "none",
        "    sgd = optimizer(run, network)\n",
        "    sgd = optimizer(run, network)\n    gather_statistics(network)\n",
        ranks=2,
    ),
    Mutation(
        "v1 in place of v1.5",
        "jax",
        "xla",
        'conv(self.width, 1, name="conv1")(x)))\n'
        '        y = nn.relu(norm(name="bn2")(conv(self.width, 3, self.stride, name="conv2")(y)))',
        'conv(self.width, 1, self.stride, name="conv1")(x)))\n'
        '        y = nn.relu(norm(name="bn2")(conv(self.width, 3, name="conv2")(y)))',
    ),
    Mutation("momentum 0.9", "jax", "xla", ", facts.MOMENTUM)", ", 0.9)"),
    Mutation("epsilon 1e-6", "jax", "xla", "epsilon=facts.BATCH_NORM_EPSILON", "epsilon=1e-6"),
    Mutation("no label smoothing", "jax", "xla", "facts.LABEL_SMOOTHING)", "0.0)"),
    Mutation(
        "decay on biases", "jax", "xla", "p: p.ndim > 1, parameters", "p: p.ndim > 0, parameters"
    ),
    Mutation(
        "v1 in place of v1.5",
        "mxnet",
        "static",
        "self.conv1 = conv(inputs, width, 1, layout=layout)\n"
        "        self.bn1 = batch_norm(width, layout)\n"
        "        self.conv2 = conv(width, width, 3, stride, layout)",
        "self.conv1 = conv(inputs, width, 1, stride, layout)\n"
        "        self.bn1 = batch_norm(width, layout)\n"
        "        self.conv2 = conv(width, width, 3, 1, layout)",
    ),
    Mutation("momentum 0.9", "mxnet", "static", "momentum=facts.MOMENTUM", "momentum=0.9"),
    Mutation("epsilon 1e-6", "mxnet", "static", "facts.BATCH_NORM_EPSILON,", "1e-6,"),
    Mutation("no label smoothing", "mxnet", "static", "= facts.LABEL_SMOOTHING", "= 0.0"),
    Mutation(
        "decay on biases", "mxnet", "static", "parameter.wd_mult = 0.0", "parameter.wd_mult = 1.0"
    ),
]
# torch's own SyncBatchNorm wants a GPU, so the mutation spells out what it computes.
GATHERED = """

def gather_statistics(network):
    import torch.distributed as dist
    import torch.distributed.nn.functional as together

    def forward(self, x):
        count = dist.get_world_size()
        mean = together.all_reduce(x.mean((0, 2, 3), keepdim=True)) / count
        variance = together.all_reduce(((x - mean) ** 2).mean((0, 2, 3), keepdim=True)) / count
        scale, shift = self.weight.view(1, -1, 1, 1), self.bias.view(1, -1, 1, 1)
        return (x - mean) / torch.sqrt(variance + self.eps) * scale + shift

    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.forward = forward.__get__(module)
"""


def certify(scripts: Path, framework: str, compiler: str, ranks: int, out: Path) -> dict:
    folder = ROOT / "results"
    command = [sys.executable, "-m", "dlperf.certify", "--workload", "resnet50"]
    command += ["--framework", framework, "--compiler", compiler, "--ranks", str(ranks)]
    command += ["--environment", str(folder / f"environments/{framework}.cpu/env.json")]
    command += ["--reference", str(folder / "certificates/resnet50/reference")]
    command += ["--data-dir", str(folder / "data/sample"), "--out", str(out), "--no-long-run"]
    environ = dict(os.environ, PYTHONPATH=str(scripts))
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{each.framework}: {each.name}")
def test_a_wrong_setting_does_not_pass(mutation, reference, tmp_path):
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    path = scripts / f"dlperf/workloads/resnet50/{mutation.framework}.py"
    source = path.read_text()
    assert mutation.old in source, "the implementation reads otherwise now: mend the mutation"
    path.write_text(source.replace(mutation.old, mutation.new) + GATHERED * (mutation.ranks == 2))
    certificate = certify(
        scripts,
        mutation.framework,
        mutation.compiler,
        mutation.ranks,
        tmp_path / "certificate.json",
    )
    failed = [tier for tier in certificate["tiers"] if tier["passed"] is False]
    print([(tier["name"], tier.get("measured"), tier.get("tolerance")) for tier in failed])
    assert not certificate["passed"]
    # it fails because it computes something else, not because it does not run
    assert all("measured" in tier for tier in failed), failed
