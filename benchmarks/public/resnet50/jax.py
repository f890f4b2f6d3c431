"""Haiku's ResNet-50 (stride in the 3x3: v1.5), trained as Haiku's ImageNet example does.

One jitted step with its state donated, NHWC, Optax; the policy of its mixed precision is jmp's.
"""

import haiku as hk
import jax
import jmp
import numpy as np
import optax
from contestant import answering

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "dm-haiku 0.0.17, hk.nets.ResNet50 (v1.5)"
REQUIREMENTS = ["dm-haiku==0.0.17", "jmp==0.0.4", "tabulate==0.10.0"]


def training(run):
    if run.amp:
        policy = jmp.get_policy("params=float32,compute=bfloat16,output=float32")
        hk.mixed_precision.set_policy(hk.nets.ResNet50, policy)

    def forward(images):
        network = hk.nets.ResNet50(
            facts.CLASSES,
            bn_config={"decay_rate": facts.BATCH_NORM_MOMENTUM, "eps": facts.BATCH_NORM_EPSILON},
        )
        return network(images, is_training=True)

    network = hk.without_apply_rng(hk.transform_with_state(forward))
    sgd = optax.chain(
        optax.add_decayed_weights(
            facts.WEIGHT_DECAY, lambda tree: jax.tree.map(lambda p: p.ndim > 1, tree)
        ),
        optax.sgd(facts.learning_rate(run.global_batch_size), facts.MOMENTUM),
    )

    def loss(parameters, statistics, images, labels):
        logits, statistics = network.apply(parameters, statistics, images)
        labels = optax.smooth_labels(jax.nn.one_hot(labels, facts.CLASSES), facts.LABEL_SMOOTHING)
        return optax.softmax_cross_entropy(logits, labels).mean(), statistics

    def train(parameters, statistics, state, images, labels):
        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(
            parameters, statistics, images, labels
        )
        updates, state = sgd.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), statistics, state, value

    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: jax.device_put(batch))
    px = run.dimensions["image_size"]
    image = np.zeros((1, px, px, 3), np.float32)
    parameters, statistics = jax.jit(network.init)(jax.random.key(run.seed), image)
    state = jax.jit(sgd.init)(parameters)
    program = jax.jit(train, donate_argnums=(0, 1, 2))

    def step():
        nonlocal parameters, statistics, state
        parameters, statistics, state, value = program(parameters, statistics, state, *next_batch())
        return value

    return Work(
        step=step,
        wait=lambda: jax.block_until_ready(parameters),
        loss=float,
        parameters=sum(p.size for p in jax.tree.leaves(parameters)),
        batches=batches,
        parity={},
    )


def inference(run):
    """Its apply in evaluation mode, jitted, the weights as arguments."""

    def forward(images):
        return hk.nets.ResNet50(facts.CLASSES, bn_config={"decay_rate": 0.9, "eps": 1e-5})(
            images, is_training=False
        )

    network = hk.without_apply_rng(hk.transform_with_state(forward))
    px = run.dimensions["image_size"]
    image = np.zeros((1, px, px, 3), np.float32)

    def initial(random):
        training_network = hk.transform_with_state(
            lambda images: hk.nets.ResNet50(facts.CLASSES)(images, is_training=True)
        )
        return training_network.init(random, image)

    parameters, statistics = jax.jit(initial)(jax.random.key(run.seed))
    program = jax.jit(lambda *given: network.apply(*given)[0])

    def answer(images, labels):
        return np.asarray(program(parameters, statistics, jax.device_put(images)))

    return answering(run, "NHWC", sum(p.size for p in jax.tree.leaves(parameters)), answer)
