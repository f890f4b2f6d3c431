"""BERT-Base pre-training in JAX, with Flax (linen) and Optax.

As fast as it gets: one program a step (forward, backward, all-reduce, clip, update), compiled
ahead, its state donated; one product for query, key and value; the decoder at predicted positions
only. Between its layers all tokens are rows of one matrix, which spares XLA copies for the weights'
gradients. Attention is Flax's, which XLA fuses: cuDNN's fused one has no dropout in JAX. Over
several ranks it runs by `shard_map`, so that each takes its mean over its own predictions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.traverse_util import flatten_dict
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dlperf.contract.run import Unsupported
from dlperf.contract.work import Work, feed
from dlperf.data import text
from dlperf.data.loaders import open_batches
from dlperf.frameworks import jax as framework
from dlperf.workloads.bert import facts


def norm(dtype, name):
    return nn.LayerNorm(epsilon=facts.LAYER_NORM_EPSILON, dtype=dtype, name=name)


def gelu(x):
    return nn.gelu(x, approximate=False)


def dense(outputs, dtype, name):
    return nn.Dense(outputs, dtype=dtype, name=name)


class Layer(nn.Module):
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x, mask):
        dropout = nn.Dropout(facts.DROPOUT, deterministic=False)
        qkv = dense(3 * facts.WIDTH, self.dtype, "qkv")(x)
        query, key, value = (
            part.reshape(len(mask), -1, facts.HEADS, facts.HEAD_WIDTH)
            for part in jnp.split(qkv, 3, axis=-1)
        )
        mixed = nn.dot_product_attention(
            query,
            key,
            value,
            mask=mask,
            dropout_rate=facts.DROPOUT,
            dropout_rng=self.make_rng("dropout"),
            broadcast_dropout=False,  # Flax's default drops the same shares of every head
            deterministic=False,
            dtype=self.dtype,
        )
        mixed = dense(facts.WIDTH, self.dtype, "projection")(mixed.reshape(x.shape))
        x = norm(self.dtype, "norm1")(x + dropout(mixed))
        inner = gelu(dense(facts.INNER_WIDTH, self.dtype, "ffn1")(x))
        inner = dense(facts.WIDTH, self.dtype, "ffn2")(inner)
        return norm(self.dtype, "norm2")(x + dropout(inner))


class Bert(nn.Module):
    """The loss of a batch: masked words and sentence pairs."""

    dtype: jnp.dtype  # of the computation; None: the parameters'

    @nn.compact
    def __call__(self, tokens, segments, mask, positions, labels, predicted, follows):
        def embed(entries, name):
            return nn.Embed(entries, facts.WIDTH, dtype=self.dtype, name=name)

        words = embed(facts.VOCABULARY, "word_embedding")
        x = words(tokens) + embed(facts.SEGMENTS, "segment_embedding")(segments)
        x = x + embed(facts.POSITIONS, "position_embedding")(jnp.arange(tokens.shape[1]))
        x = norm(self.dtype, "embedding_norm")(x)
        x = nn.Dropout(facts.DROPOUT, deterministic=False)(x)
        x = x.reshape(-1, facts.WIDTH)  # a token a row
        mask = (mask > 0)[:, None, None, :]
        for layer in range(facts.LAYERS):
            x = Layer(self.dtype, name="layer%d" % layer)(x, mask)

        x = x.reshape(tokens.shape + (facts.WIDTH,))
        hidden = jnp.take_along_axis(x, positions[:, :, None], axis=1)
        hidden = gelu(dense(facts.WIDTH, self.dtype, "mlm")(hidden))
        hidden = norm(self.dtype, "mlm_norm")(hidden)
        bias = self.param("mlm_bias", nn.initializers.zeros, (facts.VOCABULARY,))
        pooled = jnp.tanh(dense(facts.WIDTH, self.dtype, "pooler")(x[:, 0]))
        each = cross_entropy(words.attend(hidden) + bias, labels)
        language = jnp.sum(each * predicted) / jnp.sum(predicted)
        pairs = dense(2, self.dtype, "nsp")(pooled)
        return language + cross_entropy(pairs, follows).mean()


def cross_entropy(logits, labels):
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def model(run):
    return Bert(jnp.bfloat16 if run.amp else None)


def initial(run, network, sharding=None):
    """The parameters' shapes and types: the stopwatch writes them."""
    batch = text.empty(1, run.dimensions["sequence_length"])
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(0)}
    shapes = jax.eval_shape(network.init, keys, *batch)
    dtype = np.float64 if run.float64 else np.float32

    def struct(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=sharding)

    return jax.tree.map(struct, shapes)


def weights(tree, put):
    """The parameters by the names of facts.parameters."""
    names = {}
    for key in flatten_dict(tree(), sep="."):
        name = key.replace(".kernel", ".weight").replace(".scale", ".weight")
        names[name.replace("embedding.embedding", "embedding")] = key
    return framework.Weights(names, tree, put)


def optimizer(run, network):
    def decayed(parameters):
        return jax.tree.map(lambda p: p.ndim > 1, parameters)  # dense weights, embeddings

    adam = optax.adamw(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        weight_decay=facts.WEIGHT_DECAY,
        mask=decayed,
    )
    return optax.chain(clip(facts.CLIP_NORM), adam) if run.dimensions["clip"] else adam


def clip(most):
    """Gradients times min(1, most / their norm), as a factor that XLA fuses into the update.

    optax.clip_by_global_norm divides each by the norm, which XLA writes out: on a CPU, it takes a
    fifth of the step.
    """

    def update(gradients, state, parameters=None):
        factor = jnp.minimum(1, most / optax.tree.norm(gradients))
        return optax.tree.scale(factor, gradients), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def generator(run):
    """Of random numbers for dropout: the faster one of the device."""
    return "rbg" if run.cuda else "threefry2x32"


def mean_over_ranks(run, gradients):
    if run.cuda:  # XLA combines the 161 into few
        return jax.lax.pmean(gradients, "ranks")
    flat, split = ravel_pytree(gradients)  # on a CPU it leaves them apart: twice the time
    return split(jax.lax.pmean(flat, "ranks"))


def train_step(run, network, adam):
    """The step on one rank: (parameters, state, random, *batch) -> (those three, loss)."""

    def step(parameters, state, random, *batch):
        used, random = jax.random.split(jax.random.wrap_key_data(random, impl=generator(run)))
        if run.distributed:
            used = jax.random.fold_in(used, jax.lax.axis_index("ranks"))

        def forward(parameters):
            return network.apply({"params": parameters}, *batch, rngs={"dropout": used})

        value, gradients = jax.value_and_grad(forward)(parameters)
        if run.distributed:
            gradients = mean_over_ranks(run, gradients)
        updates, state = adam.update(gradients, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return parameters, state, jax.random.key_data(random), value[None]

    return step


def training(run):
    network = model(run)
    adam = optimizer(run, network)
    train = train_step(run, network, adam)
    if run.distributed:
        mesh = Mesh(np.array(jax.devices()), ("ranks",))
        same, own = PartitionSpec(), PartitionSpec("ranks")
        train = jax.shard_map(
            train,
            mesh=mesh,
            in_specs=(same, same, same) + (own,) * len(text.Batch._fields),
            out_specs=(same, same, same, own),
            check_vma=False,  # JAX would add up the gradients itself, one by one
        )

    def put(tree, spec):
        if not run.distributed:
            return jax.device_put(tree)
        sharding = NamedSharding(mesh, spec)
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), tree)

    def put_batch(*batch):
        return put(typed(run, batch), PartitionSpec("ranks"))

    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, put_batch)
    shared = NamedSharding(mesh, same) if run.distributed else None
    parameters = initial(run, network, shared)["params"]  # their shapes, until they are written
    count = sum(p.size for p in jax.tree.leaves(parameters))
    state = jax.tree.map(  # moments start at zero
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(adam.init, parameters)
    )
    random = np.asarray(jax.random.key_data(jax.random.key(run.seed, impl=generator(run))))
    state, random = put((state, random), PartitionSpec())
    program = jax.jit(train, donate_argnums=(0, 1, 2))
    # by its shapes alone: the first batch belongs to the first step
    sharding = NamedSharding(mesh, own) if run.distributed else None
    compiled = program.lower(parameters, state, random, *batch_shapes(run, sharding)).compile()
    framework.meet(run, "compiled")

    def step():
        nonlocal parameters, state, random
        parameters, state, random, value = compiled(parameters, state, random, *next_batch())
        return value

    def put_parameters(tree):
        nonlocal parameters
        parameters = put(tree, PartitionSpec())

    return Work(
        step=step,
        wait=lambda: jax.block_until_ready(parameters),
        loss=lambda value: value.addressable_data(0).item(),
        parameters=count,
        batches=batches,
        parity=dict(
            read_back(run, compiled),
            attention="flax.linen.dot_product_attention, fused by XLA",
            optimizer="optax.adamw, fused by XLA",
            clip="global norm, fused by XLA" if run.dimensions["clip"] else "none",
            loss_scaling="none",
            compute_dtype="bfloat16" if run.amp else "float32",
        ),
        weights=weights(lambda: parameters, put_parameters),
    )


def typed(run, batch):
    """A text.Batch with `predicted` in the model's type."""
    batch = text.Batch(*batch)
    return batch._replace(predicted=batch.predicted.astype("f8" if run.float64 else "f4"))


def batch_shapes(run, sharding):
    batch = typed(run, text.empty(run.global_batch_size, run.dimensions["sequence_length"]))
    return [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding) for x in batch]


def read_back(run, compiled):
    """What XLA made of the step; raises Unsupported where it is not what the case says."""
    program = compiled.as_text()
    if jax.config.jax_disable_jit:
        raise Unsupported("JAX_DISABLE_JIT is set: nothing is compiled")
    if run.amp and "bf16[" not in program:
        raise Unsupported("XLA computes in float32 on this device, bfloat16 has no effect")
    return {
        "compiler_detail": "one program: %d fusions, %d dots, %d all-reduces"
        % tuple(program.count(" %s(" % kind) for kind in ("fusion", "dot", "all-reduce"))
    }
