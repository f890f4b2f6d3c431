"""BERT-Base pre-training: sizes, arithmetic and optimiser, the same for every framework.

Masked language model and next-sentence prediction, trained together. Source: Devlin et al. 2018
and its code (google-research/bert); the optimiser's form is Loshchilov and Hutter 2017 (AdamW).
"""

from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension, Score
from dlperf.contract.published import Published
from dlperf.contract.traffic import ACTIVATION, NORM, between
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
        "laptop, and every table names it. At most 5 in 32 are predicted (20 of 128, 80 of 512).",
    ),
    clip=Dimension(
        key="clip",
        standard=1,
        words={0: "gradients not clipped", 1: "gradients clipped to a global norm of 1.0"},
        examples=([True], [True, False]),
        description="Whether gradients are clipped to a global norm of 1.0, as BERT's recipe says. "
        "Without is faster; the two never stand in one table.",
    ),
    padded_vocabulary=Dimension(
        key="pad",
        standard=0,
        words={
            0: "the decoder's product with 30,522 columns",
            1: "the decoder's product padded to 30,528 columns",
        },
        examples=([False], [True]),
        description="Whether the decoder's product with the word embedding is padded from 30,522 "
        "to 30,528 columns, a multiple of 64, which suits the tensor cores of GPUs. The columns "
        "behind the vocabulary get no probability: the loss, all gradients and the weights are the "
        "same.",
        scenarios=("train",),
    ),
)
DATA = OrderedDict(
    synthetic=encoders.SYNTHETIC,
    sample=Data(
        "prose",
        "input",
        "English prose, as pairs of passages that are drawn and masked while training runs",
        "sentence pairs drawn from English prose and masked while training runs",
        samples=256,
        tests=128,
        target=7.5,
    ),
    wikipedia_sample=Data(
        "wikipedia-sample-seq{sequence_length}-npz",
        "input",
        "ready examples, made of a small dump in Wikipedia's form",
        "examples made of a small dump of Wikipedia, in the same way as of the whole",
        samples=256,
        tests=128,
        target=7.5,
    ),
    wikipedia=Data(
        "wikipedia-seq{sequence_length}-npz",
        "input",
        "ready examples, made of a dump of Wikipedia",
        "examples made of a dump of Wikipedia",
        samples=500_000,
        tests=10_000,
        target=1.6,
    ),
)

VOCABULARY = 30522
PADDED_VOCABULARY = 30528  # 64 x 477
#: Of the columns that pad the decoder's product: as a share exactly 0, in every type. Finite, as
#: some cross-entropies multiply all columns' logarithms by zeros and one.
PADDING_SCORE = -1e4
WIDTH = 768
LAYERS = 12
HEADS = 12
HEAD_WIDTH = WIDTH // HEADS
INNER_WIDTH = 3072
POSITIONS = 512  # learned, the longest sequence
SEGMENTS = 2

LAYER_NORM_EPSILON = 1e-12
INITIAL_DEVIATION = 0.02  # of weights and embeddings; biases start at 0, scales at 1
DROPOUT = 0.1  # on embeddings, and on both outputs of a layer
ATTENTION_DROPOUT = 0.1  # on attention's shares

OPTIMIZER_STATES = 2  # values that it keeps for each weight: both moments
LEARNING_RATE = 1e-4  # after warm-up
BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-6  # beside the root of the bias-corrected second moment
WEIGHT_DECAY = 0.01  # decoupled, times the rate; not on layer-norm parameters or biases
CLIP_NORM = 1.0  # of all gradients together, averaged over ranks, before the update


def masked_positions(sequence_length):
    """The most positions of a sequence that are predicted: 20 of 128, 80 of 512."""
    return sequence_length * 5 // 32


def padding(dimensions):
    """The columns behind the vocabulary in the decoder's product: 0, or 6."""
    return PADDED_VOCABULARY - VOCABULARY if dimensions["padded_vocabulary"] else 0


def unsupported(identity):
    """Why no framework can do a case, by its identity, or ""."""
    count = identity["layout"]["tensor_parallel"]
    return "tensor_parallel: %d does not divide %d heads" % (count, HEADS) if HEADS % count else ""


def unsupported_in(framework, case):
    """Why `framework` cannot do a case, by its identity and its device, or ""."""
    if case["layout"]["tensor_parallel"] > 1 and framework != "pytorch":
        return "only PyTorch's page divides the encoder over a tensor group"
    return ""


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    The decoder of the language model is the word embedding.
    """
    tensors = encoders.embeddings(WIDTH, VOCABULARY, POSITIONS, SEGMENTS)
    for layer in range(LAYERS):
        tensors.update(encoders.layer("layer%d." % layer, WIDTH, INNER_WIDTH))
    tensors.update(tensor.dense("mlm", WIDTH, WIDTH))
    tensors.update(tensor.norm("mlm_norm", WIDTH))
    tensors["mlm_bias"] = tensor.vector(VOCABULARY)
    tensors.update(tensor.dense("pooler", WIDTH, WIDTH))
    tensors.update(tensor.dense("nsp", WIDTH, 2))
    return tensors


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number; `draw` draws."""
    return encoders.initial(INITIAL_DEVIATION, known, draw)


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: a hundredth of the rate after warm-up.

    A training warms up linearly over 10,000 steps; a window of some hundred steps lies at its
    start. Constant, so that no framework is timed with a scheduler that another does without.
    """
    return LEARNING_RATE / 100


def schedule(run):
    """The rate of each step of the quality scenario; None of others, whose rate is constant.

    Linear warm-up over 10,000 steps, of fewer than 100,000 over a tenth of them, then a line to 0.
    """
    if run.scenario != "quality":
        return None
    steps = run.measured_steps
    return encoders.warmed_up(steps, max(1, min(10_000, round(0.1 * steps))), LEARNING_RATE)


def tally(outputs, tokens, segments, mask, positions, labels, predicted, follows):
    """[the sum of the hidden words' cross-entropies, how many words are hidden].

    outputs: (batch, predictions, VOCABULARY), what a softmax takes. Sample by sample, in float64:
    a sample of 128 tokens has 5 MB of that.
    """
    import numpy as np  # not for the plan

    total = 0.0
    for words, label, used in zip(outputs, labels, predicted):
        used = used > 0
        words, label = words[used].astype(np.float64), label[used]
        most = words.max(1, keepdims=True)
        logarithms = np.log(np.exp(words - most).sum(1)) + most[:, 0]
        total += float((logarithms - words[np.arange(len(label)), label]).sum())
    return [total, float(predicted.sum())]


def score(sums):
    """The mean cross-entropy of a hidden word."""
    return sums[0] / sums[1]


MLPERF_IN_SAMPLES = ("bert",)  # the benchmark whose events count samples, and not epochs
#: What publications call it -> what is published of it under that name.
PUBLISHED = {"BERT-base": Published("wikipedia")}


def published_fields(row, columns):
    """What a row of a published table is of: fields of a value (analysis/publications)."""
    return {"dimensions": {"sequence_length": "128", "clip": "0" if row["clip"] == "no" else "1"}}


def kernels(dimensions):
    """What a training step computes and moves of one sequence, kernel by kernel."""
    tokens = dimensions["sequence_length"]
    masked = masked_positions(tokens)
    yield encoders.embedding_kernels(tokens, WIDTH)
    for _ in range(LAYERS):
        yield from encoders.layer_kernels(tokens, WIDTH, INNER_WIDTH)
    yield encoders.dense_kernels(masked, WIDTH, WIDTH)
    predicted = masked * WIDTH
    yield between((ACTIVATION + NORM) * predicted, (ACTIVATION + NORM) * predicted)
    yield encoders.dense_kernels(masked, WIDTH, VOCABULARY)
    scores = masked * VOCABULARY
    yield between(2 * scores, 4 * scores)  # softmax and loss: one kernel each way, or two
    yield encoders.dense_kernels(1, WIDTH, WIDTH)
    yield encoders.dense_kernels(1, WIDTH, 2)


def flops_per_sample(dimensions, scenario):
    """FLOPs a sequence: 69.9 GFLOP to train one of 128 tokens; training is 3 x the forward pass.

    Counted are products of matrices, a multiply-add as 2: the encoder, attention's two products
    (4 s^2 h a layer), both heads; the language model's at the predicted positions, as many as a
    sequence has at most. Left out are lookups of embeddings, layer norms, softmax, GELU, dropout,
    loss, clipping, optimiser and input, and what is computed a second time. The backward pass is
    2 x the forward (Chowdhery et al. 2022, PaLM, appendix B). An inference is the encoder's forward
    pass: its output for each token is what other models are built on.
    """
    tokens = dimensions["sequence_length"]
    encoder = encoders.multiply_adds(LAYERS, tokens, WIDTH, INNER_WIDTH)
    head = masked_positions(tokens) * (WIDTH * WIDTH + WIDTH * VOCABULARY)
    pooler = WIDTH * WIDTH + 2 * WIDTH
    if scenario == "infer":
        return 2.0 * encoder
    return 6.0 * (encoder + head + pooler)


WORKLOAD = Workload(
    title="BERT-Base",
    summary="masked words and sentence pairs, 110,106,428 parameters.",
    unit="sequences",
    dimensions=DIMENSIONS,
    data=DATA,
    ways=("accumulation", "tensor_parallel"),
    unsupported=unsupported,
    unsupported_in=unsupported_in,
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=encoders.base,
    flops_per_sample=flops_per_sample,
    answers=(4, 6),  # labels, follows
    has_dropout=True,
    schedule=schedule,
    tokens_per_sample=encoders.tokens_per_sample,
    quality=Quality(
        score=Score(
            "masked loss",
            "nats",
            "lower",
            "The mean cross-entropy of the hidden words of the test set, in nats, that is to be "
            "reached.",
        ),
        tally=tally,
        value=score,
    ),
    kernels=kernels,
    optimizer_states=OPTIMIZER_STATES,
    published=PUBLISHED,
    published_fields=published_fields,
    mlperf_in_samples=MLPERF_IN_SAMPLES,
)
