"""ELECTRA-Base pre-training: sizes, arithmetic and optimiser, the same for every framework.

A generator fills hidden words in, and a discriminator says of each word whether it is the original
one; both train together. Sources: Clark et al. 2020 and its code (google-research/electra); the
sizes and the optimiser of NVIDIA DeepLearningExamples TensorFlow2/LanguageModeling/ELECTRA, whose
generator is a third as wide (its scripts; the default in its code, a quarter, ran in no published
figure). The optimiser is LAMB (You et al. 2019) as it ran there.

To a quality it trains in two phases, as there: short sequences, and then longer ones from the
weights of the first phase, in one run. Moments go on; the optimiser counts its steps anew, and the
rate warms up anew.
"""

from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension, Score
from dlperf.contract.layout import Layout
from dlperf.contract.published import Published
from dlperf.contract.workload import Quality, Workload
from dlperf.workloads.encoders import layers as encoders

DIMENSIONS = OrderedDict(
    sequence_length=Dimension(
        key="seq",
        standard=128,
        minimum=16,
        maximum=512,
        examples=(32, 128, 512),
        description="Tokens of a sequence. Published figures use 128 and 512; a shorter one fits a "
        "laptop, and every table names it. At most 15.5 % are hidden (19 of 128, 79 of 512).",
    ),
    first_steps=Dimension(
        key="first",
        standard=10_000,
        minimum=1,
        examples=(32, 10_000),
        description="Of the quality scenario alone: updates of its first phase, on sequences of "
        "`sequence_length`. All other updates are the second phase's. Published trainings have "
        "10,000 and 933.",
    ),
    second_length=Dimension(
        key="then",
        standard=512,
        minimum=16,
        maximum=512,
        examples=(64, 512),
        description="Of the quality scenario alone: tokens of a sequence in its second phase, "
        "which goes on from the first one's weights, and of the sequences it is evaluated on. "
        "Published trainings have 512.",
    ),
    second_batch_size=Dimension(
        key="thenb",
        standard=0,
        minimum=0,
        examples=(8, 72),
        description="Of the quality scenario alone: sequences per device in its second phase; 0: "
        "as many as in the first. Published trainings have 27,648 on all devices together, after "
        "67,584: on 384 devices, 72 each after 176. An epoch has as many updates as the first "
        "phase's batches make of it.",
    ),
)
DATA = OrderedDict(
    synthetic=encoders.SYNTHETIC,
    sample=Data(
        "prose",
        "input",
        "English prose, as pairs of passages that are drawn and hidden while training runs",
        "pairs of passages drawn from English prose, of which words are hidden while training runs",
        samples=256,
        tests=64,
        target=26.0,
    ),
    wikipedia_sample=Data(
        "wikipedia-sample-corpus",
        "input",
        "the articles of a small dump in Wikipedia's form, as pairs of passages like `sample`'s",
        "pairs of passages drawn from a small dump of Wikipedia, hidden while training runs",
        samples=256,
        tests=64,
        target=26.0,
    ),
    wikipedia=Data(
        "wikipedia-corpus",
        "input",
        "the articles of a dump of Wikipedia, as pairs of passages like `sample`'s",
        "pairs of passages drawn from Wikipedia, of which words are hidden while training runs",
        samples=500_000,
        tests=10_000,
        target=8.7,
    ),
)

VOCABULARY = 30522
WIDTH = 768  # of the discriminator, and of the embeddings that both share
LAYERS = 12  # of each
HEADS = 12
INNER_WIDTH = 3072
GENERATOR_WIDTH = 256
GENERATOR_HEADS = 4
GENERATOR_INNER_WIDTH = 1024
HEAD_WIDTH = 64  # of both
POSITIONS = 512  # learned, the longest sequence
SEGMENTS = 2

LAYER_NORM_EPSILON = 1e-12
INITIAL_DEVIATION = 0.02  # of weights and embeddings; biases start at 0, scales at 1
DROPOUT = 0.1  # on embeddings, and on both outputs of a layer
ATTENTION_DROPOUT = 0.1  # on attention's shares

DISCRIMINATOR_WEIGHT = 50.0  # of its loss, beside the generator's
NOISE_EPSILON = 1e-9  # inside both logarithms of -log(-log(u))
#: Of the words that an evaluation drew, so that a wrong one shows beside its scores.
DRAWN_UNIT = 100.0
GIVEN_NOISE = False  # whether a batch brings the noise of its samples; True in certificates

LEARNING_RATE = 6e-3  # after warm-up, in the first phase
SECOND_LEARNING_RATE = 4e-3  # the same in the second
#: (updates, of which so many warm up) of a phase in published trainings.
PUBLISHED_PHASES = ((10_000, 2_000), (933, 200))
DECAY_POWER = 0.5  # of the share of a phase that is left after its warm-up
BETA1, BETA2 = 0.878, 0.974
EPSILON = 1e-6  # beside the root of the bias-corrected second moment
WEIGHT_DECAY = 0.01  # inside LAMB's ratio; not on layer-norm parameters or biases
ADAPTIVE = True  # whether a tensor's change is scaled by LAMB's ratio; never clipped
CLIP_NORM = 1.0  # of all gradients together, averaged over ranks, before the update


def masked_positions(sequence_length):
    """The most positions of a sequence that are hidden: 19 of 128, 79 of 512."""
    return sequence_length * 31 // 200


def unsupported_in(framework, case):
    """Why `framework` cannot do a case, by its identity and its device, or ""."""
    if framework == "oneflow" and case["compiler"] == "graph":
        return (
            "nn.Graph takes OneFlow's own optimisers alone, whose LAMB leaves the decay out of its "
            "norm: the compiler 'none' has the right one"
        )
    if case["scenario"] == "quality" and framework == "tensorflow1":
        return (
            "its step is a program of one length of sequences, and this implementation has no "
            "second one for the second phase"
        )
    devices = case["nodes"] * case["devices_per_node"]
    if case["scenario"] == "quality" and framework == "paddlepaddle":
        if devices > 1 or case["precision"].startswith("amp"):
            return (
                "its two steps, one for each phase, cannot both exchange gradients or keep narrow "
                "weights: one device, and no mixed precision"
            )
    return ""


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    The decoder of the generator is the word embedding.
    """
    tensors = encoders.embeddings(WIDTH, VOCABULARY, POSITIONS, SEGMENTS)

    def dense(name, inputs, outputs, **divided):
        tensors.update(tensor.dense(name, inputs, outputs, **divided))

    def encoder(name, width, inner_width):
        for layer in range(LAYERS):
            tensors.update(encoders.layer("%s.layer%d." % (name, layer), width, inner_width))

    dense("generator_input", WIDTH, GENERATOR_WIDTH)
    encoder("generator", GENERATOR_WIDTH, GENERATOR_INNER_WIDTH)
    dense("generator_head", GENERATOR_WIDTH, WIDTH)
    tensors.update(tensor.norm("generator_norm", WIDTH))
    tensors["generator_bias"] = tensor.vector(VOCABULARY)
    encoder("discriminator", WIDTH, INNER_WIDTH)
    dense("discriminator_head", WIDTH, WIDTH)
    dense("discriminator_output", WIDTH, 1)
    return tensors


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number; `draw` draws."""
    return encoders.initial(INITIAL_DEVIATION, known, draw)


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: a hundredth of the rate after warm-up.

    A training warms up linearly over 2,000 updates; a window of some hundred steps lies at its
    start. Constant, so that no framework is timed with a scheduler that another does without.
    """
    return LEARNING_RATE / 100


def schedule(run):
    """The rate of each step of the quality scenario; None of others, whose rate is constant."""
    if run.scenario != "quality":
        return None
    first = min(run.dimensions["first_steps"], run.measured_steps)
    counts = (first, run.measured_steps - first)
    peaks = (LEARNING_RATE, SECOND_LEARNING_RATE)
    found = []
    for steps, peak, published in zip(counts, peaks, PUBLISHED_PHASES):
        found += phase(steps, peak, *published)
    return found


def phase(steps, peak, published, warmup):
    """The rate of each step of a phase: a line to `peak`, then the square root of what is left.

    It warms up over as many steps as published; of fewer steps, over the same share of them.
    """
    warmup = min(steps, max(1, min(warmup, round(steps * warmup / published))))
    left = steps - warmup
    rates = [peak * (step + 1) / warmup for step in range(warmup)]
    return rates + [peak * (1 - step / left) ** DECAY_POWER for step in range(left)]


def tally(outputs, tokens, segments, mask, positions, labels, chosen, *noise):
    """[the sum of the chosen words' cross-entropies, how many words are chosen, the sum of the
    tokens' binary cross-entropies, how many tokens are no padding].

    outputs: (batch, values): of each sequence what the generator's softmax takes, place by place;
    the words that the model drew there, by DRAWN_UNIT; and what the discriminator says of each
    token. Which of them are replaced, is found here: a model is not told. Sample by sample, in
    float64: a sample of 128 tokens has 5 MB of that.
    """
    import numpy as np  # not for the plan

    places, sums = positions.shape[1], [0.0, 0.0, 0.0, 0.0]
    for own, where, label, used, real in zip(outputs, positions, labels, chosen > 0, mask > 0):
        words, samples, found = np.split(own, [places * VOCABULARY, places * (VOCABULARY + 1)])
        words = words.reshape(places, VOCABULARY)[used].astype(np.float64)
        most = words.max(1, keepdims=True)
        logarithms = np.log(np.exp(words - most).sum(1)) + most[:, 0]
        sums[0] += float((logarithms - words[np.arange(len(words)), label[used]]).sum())
        sums[1] += float(used.sum())

        replaced = np.zeros(len(found), bool)
        drawn = np.rint(samples[used].astype(np.float64) * DRAWN_UNIT)
        replaced[where[used]] = drawn != label[used]
        # the logarithm of 1 + exp, of minus the score where a token is replaced
        signed = np.where(replaced, -found.astype(np.float64), found)[real]
        sums[2] += float(np.logaddexp(0.0, signed).sum())
        sums[3] += float(real.sum())
    return sums


def generator_loss(sums):
    """The mean cross-entropy of a chosen word."""
    return sums[0] / sums[1]


def discriminator_loss(sums):
    """The mean binary cross-entropy of a token."""
    return sums[2] / sums[3]


def score(sums):
    """The loss that is trained: as published."""
    return generator_loss(sums) + DISCRIMINATOR_WEIGHT * discriminator_loss(sums)


def unsupported(identity):
    """Why no framework can do a case, by its identity, or ""."""
    if "epochs" not in identity:  # of a certificate, whose sizes are the proof's
        return ""
    first = identity["first_steps"]
    if identity["scenario"] != "quality":
        for name in ("first_steps", "second_length", "second_batch_size"):
            if identity[name] != DIMENSIONS[name].standard:
                return "%s: only the quality scenario has a second phase" % name
        return ""
    devices = identity["nodes"] * identity["devices_per_node"]
    size = Layout(**identity["layout"]).global_batch_size(identity["batch_size"], devices)
    steps = identity["epochs"] * (DATA[identity["data"]].samples // size)
    if first >= steps:
        return "first_steps: %d leaves none of %d updates to the second phase" % (first, steps)
    return ""


#: What publications call it -> what is published of it under that name. Updates: NVIDIA
#: DeepLearningExamples, TensorFlow2/LanguageModeling/ELECTRA/scripts/configs/pretrain_config.sh.
PUBLISHED = {
    "ELECTRA-base": Published(updates={"1": 10_000, "2": 933}),
    "ELECTRA-base++": Published(),  # the weights that were fine-tuned
    "ELECTRA-base (Wiki+Books)": Published(),
}


def published_fields(row, columns):
    """What a row of a published table is of: fields of a value (analysis/publications).

    columns: dimensions that the table has columns of. A speed of pre-training is of updates of many
    micro-steps.
    """
    name = "ELECTRA-base"
    if (row["model"], row.get("mode")) == (name, "pretrain"):
        found = {"data": "wikipedia_books"}
        if row["metric"] != "throughput":  # of both phases together
            return dict(found, dimensions=columns)
        steps = row["accumulation_steps"]
        return {
            **found,
            "estimator": "mean of the rates of single micro-steps, as published",
            "dimensions": {"sequence_length": row["seq_len"], "accumulation": steps},
        }
    weights = row["model"][len(name) :].strip(" ()")
    return {"dimensions": dict(columns, weights=weights) if weights else columns}


def flops_per_sample(dimensions, scenario):
    """FLOPs a sequence: 78.2 GFLOP to train one of 128 tokens; training is 3 x the forward pass.

    Counted are products of matrices, a multiply-add as 2: both encoders, attention's two products
    (4 s^2 h a layer), the projection to the generator's width, its head at the hidden positions, as
    many as a sequence has at most, and the discriminator's head at all. Left out are lookups of
    embeddings, layer norms, softmax, GELU, dropout, the samples, losses, clipping, optimiser and
    input, and what is computed a second time. An inference is the discriminator alone.
    """
    tokens = dimensions["sequence_length"]
    discriminator = encoders.multiply_adds(LAYERS, tokens, WIDTH, INNER_WIDTH)
    discriminator += tokens * (WIDTH * WIDTH + WIDTH)
    if scenario == "infer":
        return 2.0 * discriminator
    sizes = (GENERATOR_WIDTH, GENERATOR_INNER_WIDTH)
    generator = encoders.multiply_adds(LAYERS, tokens, *sizes) + tokens * WIDTH * GENERATOR_WIDTH
    head = masked_positions(tokens) * (GENERATOR_WIDTH * WIDTH + WIDTH * VOCABULARY)
    return 6.0 * (generator + head + discriminator)


WORKLOAD = Workload(
    title="ELECTRA-Base",
    summary="words replaced by a generator and found by a discriminator, 119,386,427 parameters.",
    unit="sequences",
    dimensions=DIMENSIONS,
    data=DATA,
    ways=("accumulation",),
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=encoders.base,
    flops_per_sample=flops_per_sample,
    answers=(4,),  # labels
    has_dropout=True,
    schedule=schedule,
    unsupported=unsupported,
    tokens_per_sample=encoders.tokens_per_sample,
    quality=Quality(
        score=Score(
            "evaluation loss",
            "nats",
            "lower",
            "The loss on the sequences of the test set, of the second phase's length, in nats, "
            "that is to be reached: the generator's, and 50 times the discriminator's.",
        ),
        tally=tally,
        value=score,
        more={
            "generator_loss": (
                Score("generator loss", "nats", "lower", "The generator's share of the loss."),
                generator_loss,
            ),
            "discriminator_loss": (
                Score(
                    "discriminator loss",
                    "nats",
                    "lower",
                    "The discriminator's share of the loss, before its weight of 50.",
                ),
                discriminator_loss,
            ),
        },
    ),
    unsupported_in=unsupported_in,
    published=PUBLISHED,
    published_fields=published_fields,
)
