"""BERT-Base pre-training in TensorFlow 2, as tf.Modules.

As fast as it gets: the whole step is one traced function of static shapes; tokens lie in rows of a
matrix, as a product of more dimensions is a slower operator with a slower gradient; one product for
query, key and value; the decoder at predicted positions only; Adam is one operator a tensor. Under
AMP, fp32 variables are cast to bfloat16 or float16 where they are used. TensorFlow has no fused
operator for attention.
"""

import functools

import tensorflow as tf

from dlperf.data import text
from dlperf.frameworks.tensorflow import inference as answers
from dlperf.frameworks.tensorflow import training as framework
from dlperf.workloads.bert import facts

ATTENTION = "matmul, softmax, matmul (TensorFlow has none fused)"


def variable(*shape):
    return tf.Variable(tf.zeros(shape, framework.dtype()))  # the stopwatch writes all weights


class Dense(tf.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = variable(inputs, outputs), variable(outputs)

    def __call__(self, x):
        x = tf.matmul(x, tf.cast(self.weight, x.dtype))
        return tf.nn.bias_add(x, tf.cast(self.bias, x.dtype))


class LayerNorm(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = variable(facts.WIDTH), variable(facts.WIDTH)

    def __call__(self, x):
        """In the variables' type, whatever that of x: means are not for half precision."""
        wide = tf.cast(x, self.weight.dtype)
        mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
        y = tf.nn.batch_normalization(
            wide, mean, variance, self.bias, self.weight, facts.LAYER_NORM_EPSILON
        )
        return tf.cast(y, x.dtype)


def gelu(x):
    """The exact form. tf.nn.gelu is this with the root rounded to float32, also for float64."""
    return 0.5 * x * tf.math.erfc(x * -(0.5**0.5))


def dropout(x, training, rate=None):
    return tf.nn.dropout(x, facts.DROPOUT if rate is None else rate) if training else x


class Layer(tf.Module):
    def __init__(self):
        super().__init__()
        self.qkv = Dense(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = Dense(facts.WIDTH, facts.WIDTH)
        self.norm1 = LayerNorm()
        self.ffn1 = Dense(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = Dense(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = LayerNorm()

    def __call__(self, x, bias, training):
        """x (batch x tokens, width), bias (batch, 1, 1, tokens): added to attention's scores."""
        mixed = self.projection(self.attention(x, bias, training))
        x = self.norm1(x + dropout(mixed, training))
        inner = self.ffn2(gelu(self.ffn1(x)))
        return self.norm2(x + dropout(inner, training))

    def attention(self, x, bias, training):
        batch, tokens = bias.shape[0], bias.shape[-1]
        qkv = tf.reshape(self.qkv(x), [batch, tokens, 3, facts.HEADS, facts.HEAD_WIDTH])
        query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        scores = tf.matmul(query * facts.HEAD_WIDTH**-0.5, key, transpose_b=True) + bias
        shares = dropout(tf.nn.softmax(scores), training, facts.ATTENTION_DROPOUT)
        mixed = tf.matmul(shares, value)
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch * tokens, facts.WIDTH])


class Bert(tf.Module):
    def __init__(self):
        super().__init__()
        self.word_embedding = variable(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = variable(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = variable(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = LayerNorm()
        self.layers = [Layer() for _ in range(facts.LAYERS)]
        self.mlm = Dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = LayerNorm()
        self.mlm_bias = variable(facts.VOCABULARY)
        self.pooler = Dense(facts.WIDTH, facts.WIDTH)
        self.nsp = Dense(facts.WIDTH, 2)

    def encode(self, table, tokens, segments, mask, dtype, training):
        """The encoder's output (batch x tokens, width); table: the word embedding."""
        batch, length = tokens.shape
        x = tf.gather(table, tokens)
        # of two rows, a product is faster than a gather and its gradient
        segments = tf.one_hot(segments, facts.SEGMENTS, dtype=dtype)
        segments = tf.tensordot(segments, tf.cast(self.segment_embedding, dtype), 1)
        x += tf.cast(segments, x.dtype) + self.position_embedding[:length]
        x = tf.reshape(x, [batch * length, facts.WIDTH])
        x = dropout(tf.cast(self.embedding_norm(x), dtype), training)
        bias = tf.where(mask[:, None, None, :] == 0, tf.constant(float("-inf"), dtype), 0)
        for layer in self.layers:
            x = layer(x, bias, training)
        return x

    def __call__(self, tokens, segments, mask, positions, dtype, training=True):
        """Logits of words (batch x predictions, vocabulary) and of sentence pairs (batch, 2)."""
        batch, length = tokens.shape
        # as a tensor: once rows were gathered from a variable, each read of it is a copy
        table = tf.convert_to_tensor(self.word_embedding)
        x = self.encode(table, tokens, segments, mask, dtype, training)
        starts = tf.range(0, batch * length, length)  # the row of each sequence's first token
        hidden = tf.gather(x, tf.reshape(positions + starts[:, None], [-1]))
        hidden = self.mlm_norm(gelu(self.mlm(hidden)))
        words = tf.matmul(hidden, tf.cast(table, dtype), transpose_b=True)
        words = tf.nn.bias_add(words, tf.cast(self.mlm_bias, dtype))
        pairs = self.nsp(tf.tanh(self.pooler(tf.gather(x, starts))))
        # the losses are not for half precision
        return tf.cast(words, framework.dtype()), tf.cast(pairs, framework.dtype())


class AdamW(tf.Module):
    """Loshchilov and Hutter's, after a clip by global norm; Adam by TensorFlow's fused operator.

    The operator adds its epsilon beside the root of the uncorrected moment, corrects in float32
    (where 1 - 0.999 has an error of 1e-5) and knows no decay: so epsilon, the rate and the weights
    are scaled before it.
    """

    def __init__(self, variables, learning_rate, clip_norm):
        super().__init__()
        self.trained, self.clip_norm = variables, clip_norm
        # a variable, not a constant: of a small rate, 1 - rate x decay would be optimised away
        self.learning_rate = tf.Variable(learning_rate, dtype=tf.float64, trainable=False)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.first = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
        self.second = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, gradients, norm=None, finite=None):
        """One step, or none: see training.train."""
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, norm)
        dtype, choose = framework.dtype(), functools.partial(framework.choose, finite)
        beta1, beta2 = (tf.constant(beta, dtype) for beta in (facts.BETA1, facts.BETA2))
        # corrections are of the betas as the operator has them: rounded
        exact1, exact2 = tf.cast(beta1, tf.float64), tf.cast(beta2, tf.float64)
        steps = tf.cast(self.steps.assign_add(choose(tf.constant(1, tf.int64), 0)), tf.float64)
        root = tf.sqrt(1 - exact2**steps)
        settings = {
            "lr": choose(tf.cast(self.learning_rate * root / (1 - exact1**steps), dtype), 0.0),
            "epsilon": choose(tf.cast(facts.EPSILON * root, dtype), 1.0),
            "beta1": choose(beta1, 1.0),
            "beta2": choose(beta2, 1.0),
            "beta1_power": tf.constant(0.0, dtype),
            "beta2_power": tf.constant(0.0, dtype),
        }
        kept = choose(tf.cast(1 - self.learning_rate * facts.WEIGHT_DECAY, dtype), 1.0)
        moments = zip(self.first, self.second)
        for variable, (first, second), gradient in zip(self.trained, moments, gradients):
            if variable.shape.rank > 1:  # embeddings, dense weights
                variable.assign(variable * kept)
            handles = {"var": variable.handle, "m": first.handle, "v": second.handle}
            tf.raw_ops.ResourceApplyAdam(grad=choose(gradient, 0.0), **handles, **settings)


def model(run):
    # plain variables, the same on all ranks: see resnet50/tensorflow.py
    return Bert()


def weights(run, network):
    """The trained variables by the names of facts.parameters."""
    single = ("word_embedding", "position_embedding", "segment_embedding", "mlm_bias")
    named = {name: getattr(network, name) for name in single}

    def add(module, prefix, *names):
        for name in names:
            named[prefix + name + ".weight"] = getattr(module, name).weight
            named[prefix + name + ".bias"] = getattr(module, name).bias

    add(network, "", "embedding_norm", "mlm", "mlm_norm", "pooler", "nsp")
    for index, layer in enumerate(network.layers):
        names = ("qkv", "projection", "norm1", "ffn1", "ffn2", "norm2")
        add(layer, "layer%d." % index, *names)
    return framework.Weights(named)


def loss(run, network, tokens, segments, mask, positions, labels, predicted, follows):
    words, pairs = network(tokens, segments, mask, positions, framework.compute_dtype(run))
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    predicted = tf.reshape(tf.cast(predicted, words.dtype), [-1])
    language = entropy(tf.reshape(labels, [-1]), words)
    language = tf.reduce_sum(predicted * language) / tf.reduce_sum(predicted)
    return language + tf.reduce_mean(entropy(follows, pairs))


def optimizer(run, network):
    return AdamW(
        network.trainable_variables,
        facts.learning_rate(run.global_batch_size),
        facts.CLIP_NORM if run.dimensions["clip"] else None,
    )


def specs(run):
    batch = text.empty(run.batch_size, run.dimensions["sequence_length"])
    return [tf.TensorSpec(array.shape, array.dtype) for array in batch]


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        specs(run),
        parity={
            "attention": ATTENTION,
            "optimizer": "AdamW, Adam fused (ResourceApplyAdam)",
            "clip": "global norm" if run.dimensions["clip"] else "none",
        },
        schedule=facts.schedule(run),
        outputs=tested,
    )


def inference(run):
    network = model(run)
    own = weights(run, network)
    parity = {"attention": ATTENTION}
    return answers.infer(run, network, outputs, own, framework.put, specs(run), parity=parity)


def outputs(run, network, tokens, segments, mask, *_):
    dtype, table = framework.compute_dtype(run), network.word_embedding
    x = network.encode(table, tokens, segments, mask, dtype, training=False)
    return tf.cast(tf.reshape(x, tokens.shape + [facts.WIDTH]), framework.dtype())


def tested(run, network, tokens, segments, mask, positions, *_):
    """Of a training to a quality: what the masked words' softmax takes."""
    dtype = framework.compute_dtype(run)
    words, _ = network(tokens, segments, mask, positions, dtype, training=False)
    return tf.reshape(words, positions.shape + [facts.VOCABULARY])
