"""ELECTRA-Base pre-training: sizes, arithmetic and optimiser, the same for every framework.

A generator fills hidden words in, and a discriminator says of each word whether it is the original
one; both train together. Sources: Clark et al. 2020 and its code (google-research/electra); the
sizes and the optimiser of NVIDIA DeepLearningExamples TensorFlow2/LanguageModeling/ELECTRA, whose
generator is a third as wide (its scripts; the default in its code, a quarter, ran in no published
figure). The optimiser is LAMB (You et al. 2019) as it ran there.
"""

from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension
from dlperf.contract.published import Published
from dlperf.contract.workload import Workload
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
)
DATA = OrderedDict(
    synthetic=encoders.SYNTHETIC,
    sample=Data(
        "prose",
        "input",
        "English prose, as pairs of passages that are drawn and hidden while training runs",
        "pairs of passages drawn from English prose, of which words are hidden while training runs",
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
GIVEN_NOISE = False  # whether a batch brings the noise of its samples; True in certificates

LEARNING_RATE = 6e-3  # after warm-up, in the first phase
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
    if (row["model"], row.get("mode"), row["metric"]) == (name, "pretrain", "throughput"):
        steps = row["accumulation_steps"]
        return {
            "data": "wikipedia_books",
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
    tokens_per_sample=encoders.tokens_per_sample,
    unsupported_in=unsupported_in,
    published=PUBLISHED,
    published_fields=published_fields,
)
