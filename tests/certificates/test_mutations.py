"""The smallest wrong settings do not pass: real runs of an implementation with one thing changed.

Each mutation replaces a piece of an implementation's source, in its page or in its framework's
training.py, in a copy of the package; the reference stays what it is.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import CPU_FRAMEWORKS, ROOT, SCRIPTS

from dlperf import frameworks


class Mutation(NamedTuple):
    name: str
    framework: str
    compiler: str
    old: str
    new: str
    layout: str = "1"
    more: str = ""  # put behind the source
    float64_only: bool = True  # enough to show it, in half the time


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
RESNET50 = [
    Mutation(
        "v1 in place of v1.5",
        "pytorch",
        "none",
        "self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)",
        "self.conv1, self.bn1 = conv(inputs, width, 1, stride), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3), batch_norm(width)",
    ),
    Mutation("a class more", "pytorch", "none", "facts.CLASSES)", "facts.CLASSES + 1)"),
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
        '"weight_decay": 0.0',
        '"weight_decay": decay',
    ),
    Mutation(
        "batch-norm over all ranks",
        "pytorch",
        "none",
        "    network = model(run)\n    return",
        "    network = model(run)\n    gather_statistics(network)\n    return",
        layout="dp2",
        more=GATHERED,
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
        "batch-norm over all ranks",
        "jax",
        "xla",
        "        epsilon=facts.BATCH_NORM_EPSILON,\n",
        '        epsilon=facts.BATCH_NORM_EPSILON,\n        axis_name="ranks",\n',
        layout="dp2",
    ),
    Mutation(
        "batch-norm over all ranks",
        "tensorflow",
        "none",
        "        mean, variance = tf.nn.moments(x, [0, 1, 2])\n",
        "        mean, square = tf.distribute.get_replica_context().all_reduce(\n"
        '            "mean", [tf.reduce_mean(x, [0, 1, 2]), tf.reduce_mean(x * x, [0, 1, 2])]\n'
        "        )\n"
        "        variance = square - mean * mean\n",
        layout="dp2",
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
# PyTorch's AdamW always corrects; a rate that undoes it is what goes without.
UNCORRECTED = """

def leave_uncorrected(adam):
    rate, steps = adam.param_groups[0]["lr"], [0]

    def undo(*_):
        steps[0] += 1
        share = (1 - facts.BETA1 ** steps[0]) / (1 - facts.BETA2 ** steps[0]) ** 0.5
        for group in adam.param_groups:
            group["lr"] = rate * share

    adam.register_step_pre_hook(undo)
"""
# and so does optax.adamw
UNCORRECTED_OPTAX = """

def uncorrected(rate, beta1, beta2, epsilon, weight_decay, mask):
    def init(parameters):
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return zeros, zeros

    def update(gradients, state, parameters=None):
        first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state[0], gradients)
        second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state[1], gradients)
        change = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + epsilon), first, second)
        return change, (first, second)

    adam = optax.GradientTransformation(init, update)
    decay = optax.add_decayed_weights(weight_decay, mask)
    return optax.chain(adam, decay, optax.scale(-rate))
"""
BERT = [
    Mutation(
        "no bias correction",
        "pytorch",
        "none",
        "    return adam\n",
        "    leave_uncorrected(adam)\n    return adam\n",
        more=UNCORRECTED,
    ),
    Mutation(
        "no clip",
        "pytorch",
        "none",
        'if run.dimensions["clip"]:\n\n',
        "if False:\n\n",
        float64_only=False,  # the small model's gradients are below the clip: alone it shows
    ),
    Mutation(
        "GELU's tanh form",
        "pytorch",
        "none",
        "F.gelu(self.ffn1(x))",
        'F.gelu(self.ffn1(x), approximate="tanh")',
    ),
    Mutation(
        "no loss of sentence pairs",
        "pytorch",
        "none",
        "+ F.cross_entropy(pairs",
        "+ 0.0 * F.cross_entropy(pairs",
    ),
    Mutation(
        "decay on biases",
        "pytorch",
        "none",
        '"weight_decay": 0.0',
        '"weight_decay": decay',
    ),
    Mutation(
        "no bias correction",
        "jax",
        "xla",
        "optax.adamw(",
        "uncorrected(",
        more=UNCORRECTED_OPTAX,
    ),
    Mutation(
        "no clip",
        "jax",
        "xla",
        'if run.dimensions["clip"] else adam',
        "if False else adam",
        float64_only=False,
    ),
    Mutation("GELU's tanh form", "jax", "xla", "approximate=False", "approximate=True"),
    Mutation(
        "a sum over micro-steps",
        "jax",
        "xla",
        "gradients = jax.tree.map(lambda each: each / run.accumulation, gradients)",
        "gradients = gradients",
        layout="acc2",
    ),
    Mutation(
        "no loss of sentence pairs",
        "jax",
        "xla",
        "language + cross_entropy(",
        "language + 0.0 * cross_entropy(",
    ),
    Mutation(
        "no bias correction",
        "tensorflow",
        "none",
        "root = tf.sqrt(1 - exact2**steps)\n"
        "        settings = {\n"
        '            "lr": tf.cast(self.learning_rate * root / (1 - exact1**steps), dtype),',
        "root = tf.constant(1.0, tf.float64)\n"
        "        settings = {\n"
        '            "lr": tf.cast(self.learning_rate, dtype),',
    ),
    Mutation(
        "no clip",
        "tensorflow",
        "none",
        "if self.clip_norm:",
        "if False:",
        float64_only=False,
    ),
    Mutation(
        "GELU's tanh form",
        "tensorflow",
        "none",
        "return 0.5 * x * tf.math.erfc(x * -(0.5**0.5))",
        "return tf.nn.gelu(x, approximate=True)",
    ),
    Mutation(
        "no loss of sentence pairs",
        "tensorflow",
        "none",
        "language + tf.reduce_mean(",
        "language + 0.0 * tf.reduce_mean(",
    ),
]
# The BERT of two layers passes in every framework.
RIGHT = [
    Mutation(
        "as it is",
        framework,
        frameworks.load(framework).DEFAULT_COMPILER["cpu"],
        old="",
        new="",
        layout=layout,
        float64_only=False,
    )
    for framework in CPU_FRAMEWORKS
    for layout in (("1", "dp2", "acc2") if framework == "pytorch" else ("1", "acc2"))
]


@pytest.fixture(scope="module")
def small_bert(environments, prose, tmp_path_factory) -> Path:
    """A copy of the package whose BERT has two layers, and its reference: settings show as well."""
    scripts = tmp_path_factory.mktemp("bert") / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    facts = scripts / "dlperf/workloads/bert/facts.py"
    facts.write_text(facts.read_text().replace("LAYERS = 12", "LAYERS = 2"))
    run(
        scripts,
        "dlperf.certify.reference",
        "--workload=bert",
        f"--environment={environments}/pytorch.cpu/env.json",
        f"--data-dir={prose}",
        f"--out={scripts.parent}/reference",
    )
    return scripts


def run(scripts: Path, module: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(scripts)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def certificate_of(mutation, workload, package, reference, data, folder) -> dict:
    """The certificate of a copy of the package in which the mutation was made."""
    scripts = folder / "scripts"
    shutil.copytree(package, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    page = scripts / f"dlperf/workloads/{workload}/{mutation.framework}.py"
    shared = scripts / f"dlperf/frameworks/{mutation.framework}/training.py"
    path = page if mutation.old in page.read_text() else shared
    source = path.read_text()
    assert mutation.old in source, "the implementation reads otherwise now: change the mutation"
    path.write_text(source.replace(mutation.old, mutation.new) + mutation.more)
    out = folder / "certificate.json"
    run(
        scripts,
        "dlperf.certify",
        f"--workload={workload}",
        f"--framework={mutation.framework}",
        f"--compiler={mutation.compiler}",
        f"--layout={mutation.layout}",
        f"--environment={ROOT}/results/environments/{mutation.framework}.cpu/env.json",
        f"--reference={reference}",
        f"--data-dir={data}",
        "--cores=1",  # as two are made at a time
        f"--out={out}",
        "--no-long-run",
        *["--float64-only"] * mutation.float64_only,
    )
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def certificate(request, environments, tmp_path_factory) -> Iterator[Callable[[Mutation], dict]]:
    """A mutation's certificate. Each takes a core, so those of all chosen tests are made two at a
    time, from the first test on."""
    chosen = [
        item.callspec.params["mutation"]
        for item in request.session.items
        if item.path == request.path
    ]
    parts = {}
    if set(chosen) & set(RESNET50):
        fixtures = map(request.getfixturevalue, ("reference", "sample_data"))
        parts["resnet50"] = (SCRIPTS, *fixtures)
    if set(chosen) - set(RESNET50):
        package = request.getfixturevalue("small_bert")
        parts["bert"] = (package, package.parent / "reference", request.getfixturevalue("prose"))
    pool, running = ThreadPoolExecutor(2), {}
    for mutation in chosen:
        workload = "resnet50" if mutation in RESNET50 else "bert"
        folder = tmp_path_factory.mktemp("mutation")
        running[mutation] = pool.submit(
            certificate_of, mutation, workload, *parts[workload], folder
        )
    yield lambda mutation: running[mutation].result()
    pool.shutdown(cancel_futures=True)


def assert_fails(certificate: dict) -> None:
    failed = [tier for tier in certificate["tiers"] if tier["passed"] is False]
    print([(tier["name"], tier.get("measured"), tier.get("tolerance")) for tier in failed])
    assert not certificate["passed"]
    # it fails because it computes something else, not because it does not run
    assert all("measured" in tier for tier in failed), failed


def shortened(mutations: list[Mutation]) -> list:
    """PyTorch's, one of another framework, and of micro-steps; the rest is for `make test-full`."""
    kept = [next(each for each in mutations if each.framework == "tensorflow")]
    kept += [each for each in mutations if each.layout == "acc2"]
    return [
        pytest.param(
            each,
            id=title(each),
            marks=() if each.framework == "pytorch" or each in kept else pytest.mark.full,
        )
        for each in mutations
    ]


def title(mutation: Mutation) -> str:
    return f"{mutation.framework}: {mutation.name}, {mutation.layout}"


@pytest.mark.parametrize("mutation", shortened(RESNET50))
def test_a_wrong_setting_of_resnet50_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation))


@pytest.mark.parametrize("mutation", shortened(BERT))
def test_a_wrong_setting_of_bert_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation))


@pytest.mark.parametrize("mutation", RIGHT, ids=title)
def test_the_small_bert_passes_as_it_is(mutation, certificate):
    found = certificate(mutation)
    assert found["passed"], found["tiers"]
