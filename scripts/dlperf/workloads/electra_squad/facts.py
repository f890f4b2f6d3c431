"""ELECTRA-Base fine-tuned on SQuAD: sizes, arithmetic and optimiser, the same for every framework.

The discriminator of a trained ELECTRA reads a question and a paragraph, and gives the first and
the last token of the answer, and whether there is one. [NV] below is NVIDIA/DeepLearningExamples
TensorFlow2/LanguageModeling/ELECTRA (run_squad.sh, squad_config.sh, run_tf_squad.py, modeling.py,
optimization.py), whose figures are published, and [G] google-research/electra (finetune/qa,
configure_finetuning.py), which it follows. Encoder: Clark et al. 2020, which is BERT's.

One network serves both versions of SQuAD, as in [G]: it scores on version 1.1 too whether a window
has an answer, and there the score is not used. In [NV] that head, 1.2 of 111 million parameters, is
left out of version 1.1.
"""

from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension, Score
from dlperf.contract.tensor import Tensor
from dlperf.contract.workload import Quality, Workload
from dlperf.workloads.electra_squad import answers
from dlperf.workloads.encoders import layers as encoders

DIMENSIONS = OrderedDict(
    sequence_length=Dimension(
        key="seq",
        standard=384,
        minimum=16,
        maximum=512,
        examples=(64, 384, 512),
        description="Tokens of a window: a question and a piece of its paragraph. Published "
        "figures use 384; a shorter one fits a laptop, and every table names it. A question has at "
        "most a quarter of them, and 64; windows begin 128 tokens apart, or half of what a window "
        "has of the paragraph.",
    ),
)
DATA = OrderedDict(
    synthetic=Data(
        "",
        "input",
        "synthetic windows, on the device",
        "batches drawn anew before each window, on the device",
    ),
    sample=Data(
        "squad-sample",
        "input",
        "48 questions on English paragraphs, written for this project",
        "48 questions, a quarter without an answer, on 12 paragraphs that come with this project, "
        "and 16 to test with; it tests the pipeline, nothing is learned of so few",
        samples=48,
        tests=16,
        target=0.8,
    ),
    squad=Data(
        "squad",
        "input",
        "SQuAD v1.1, from released weights",
        "SQuAD v1.1, whose questions all have an answer; training starts from the released weights "
        "that config/data.yaml names",
        samples=87_599,
        tests=10_570,
        target=0.925,
    ),
    squad2=Data(
        "squad2",
        "input",
        "SQuAD v2.0, from released weights",
        "SQuAD v2.0, with questions that have no answer; training starts as with `squad`",
        samples=130_319,
        tests=11_873,
        target=0.83,
    ),
)

VOCABULARY = 30522
WIDTH = 768
LAYERS = 12
HEADS = 12
HEAD_WIDTH = WIDTH // HEADS
INNER_WIDTH = 3072
POSITIONS = 512  # learned, the longest sequence
SEGMENTS = 2

LAYER_NORM_EPSILON = 1e-12
INITIAL_DEVIATION = 0.02  # of what does not come from a checkpoint; biases start at 0, scales at 1
DROPOUT = 0.1  # on embeddings, and on both outputs of a layer; none in the heads [NV, G]
ATTENTION_DROPOUT = 0.1  # on attention's shares

QUESTION_TOKENS = 64  # the most of a question; what follows is cut [NV, G]
STRIDE = 128  # tokens from a window to the next one [NV, G]
ANSWER_TOKENS = 30  # of the longest answer that is given [NV, G]
BEAM = 5  # starts that are tried in a test, and ends of each [NV; 20 in G]
BLOCKED = 1e4  # taken from the score of a place where no answer may stand; float16 holds it
ANSWERABLE_WEIGHT = 0.5  # of that head's loss [NV, G]
IMPOSSIBLE = -2.75  # a score above it says that there is no answer [G; NV's is of another form]

#: (sequences of a global batch, the rate after warm-up), as published runs have them [NV
#: squad_config.sh]; between them that of the next smaller batch counts.
RATES = ((8, 1e-4), (32, 2e-4), (64, 3e-4), (128, 4e-4), (256, 8e-4), (512, 1e-3))
WARMUP = 0.05  # share of the steps [NV; 0.1 in G]
LAYER_DECAY = 0.8  # of the rate, from a layer to the one below it [NV, G]
BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-6  # beside the root of the bias-corrected second moment; [G] corrects no moment
WEIGHT_DECAY = 0.01  # decoupled, times the rate; not on layer-norm parameters or biases
CLIP_NORM = 1.0  # of all gradients together, averaged over ranks, before the update


#: The released weights, and where they have the parts of a layer and the embeddings, as
#: huggingface/transformers names them.
CHECKPOINT = "google/electra-base-discriminator"
CHECKPOINT_LAYER = {
    "projection": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "ffn1": "intermediate.dense",
    "ffn2": "output.dense",
    "norm2": "output.LayerNorm",
}
CHECKPOINT_EMBEDDINGS = {
    "word_embedding": "word_embeddings.weight",
    "position_embedding": "position_embeddings.weight",
    "segment_embedding": "token_type_embeddings.weight",
    "embedding_norm.weight": "LayerNorm.weight",
    "embedding_norm.bias": "LayerNorm.bias",
}


def question_tokens(sequence_length):
    """The most tokens of a question: 64 of a window of 384."""
    return min(QUESTION_TOKENS, sequence_length // 4)


def stride(room):
    """Tokens from a window to the next one, where `room` of the paragraph fit into one."""
    return min(STRIDE, room // 2)


def unsupported_in(framework, case):
    """Why `framework` cannot do a case, by its identity and its device, or ""."""
    graph = framework == "oneflow" and case["compiler"] == "graph"
    if graph and case["scenario"] in ("train", "quality"):
        return (
            "nn.Graph clips each group of parameters by itself, and rates fall from layer to "
            "layer: the compiler 'none' clips all together"
        )
    return ""


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    end_token and end_start are the two halves of one dense layer, which takes a token and the start
    [NV: 768 wide, tanh, then a layer norm]; a start's half is computed once for all tokens. answer
    takes what is expected at the start, and [CLS], in this order. What adds the same to the scores
    of all tokens is left out, as softmax ignores it: biases of start, end_norm and end_output.
    """
    tensors = encoders.embeddings(WIDTH, VOCABULARY, POSITIONS, SEGMENTS)

    def dense(name, inputs, outputs, **divided):
        tensors.update(tensor.dense(name, inputs, outputs, **divided))

    for layer in range(LAYERS):
        tensors.update(encoders.layer("layer%d." % layer, WIDTH, INNER_WIDTH))
    tensors["start.weight"] = Tensor((1, WIDTH), tensor.DENSE)
    dense("end_token", WIDTH, WIDTH)
    tensors["end_start.weight"] = Tensor((WIDTH, WIDTH), tensor.DENSE)
    tensors["end_norm.weight"] = Tensor((WIDTH,), tensor.SCALE)
    tensors["end_output.weight"] = Tensor((1, WIDTH), tensor.DENSE)
    dense("answer", 2 * WIDTH, WIDTH)
    dense("answer_output", WIDTH, 1)
    return tensors


def of_head(name):
    """Whether a tensor is none of the encoder's, which a checkpoint has."""
    return not ("embedding" in name or name.startswith("layer"))


def rate_share(name):
    """The share of the learning rate that a tensor is trained at, 0.8 a layer [NV, G].

    The heads have all of it; the last layer 0.64, as one step lies between; the embeddings 0.044.
    """
    if of_head(name):
        return 1.0
    depth = int(name[len("layer") : name.index(".")]) + 1 if name.startswith("layer") else 0
    return LAYER_DECAY ** (LAYERS + 2 - depth)


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number, where no checkpoint has it."""
    return encoders.initial(INITIAL_DEVIATION, known, draw)


def released(data_dir):
    """The file of the released weights in a folder of data, which may not be there."""
    return data_dir + "/weights.npz"


def names_in_checkpoint(name):
    """The tensors of CHECKPOINT that a canonical one is made of, one below the other."""
    if name in CHECKPOINT_EMBEDDINGS:
        return ["electra.embeddings." + CHECKPOINT_EMBEDDINGS[name]]
    layer, part, kind = name.split(".")
    own = "electra.encoder.layer.%s." % layer[len("layer") :]
    if part == "qkv":
        return [own + "attention.self.%s.%s" % (each, kind) for each in ("query", "key", "value")]
    return [own + "%s.%s" % (CHECKPOINT_LAYER[part], kind)]


def peak_rate(global_batch_size):
    """The rate after warm-up."""
    smaller = [rate for size, rate in RATES if size <= global_batch_size]
    return smaller[-1] if smaller else RATES[0][1]


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: a hundredth of the rate after warm-up.

    A window of some hundred steps lies within the warm-up. Constant, so that no framework is timed
    with a scheduler that another does without.
    """
    return peak_rate(global_batch_size) / 100


def schedule(run):
    """The rate of each step of the quality scenario; None of others, whose rate is constant.

    Linear warm-up, then a line to 0. A tensor's own rate is its share of it.
    """
    if run.scenario != "quality":
        return None
    steps = run.measured_steps
    warmup = max(1, round(WARMUP * steps))
    return encoders.warmed_up(steps, warmup, peak_rate(run.global_batch_size))


def kept(outputs, tokens, segments, mask, allowed, starts, ends, impossible, windows):
    """What a test keeps of each window: its best pieces, and their scores (answers.py)."""
    return answers.candidates(outputs, allowed, BEAM, ANSWER_TOKENS) + (windows,)


def tally(scores, starts, ends, impossible, windows, known):
    """[exact matches, the sum of F1, how many questions there are].

    Lists of arrays, which together have all windows that are tested with. known: of the loader
    (input.py), the questions and paragraphs that these windows are of.
    """
    found = answers.predictions(scores, starts, ends, impossible, windows, known, IMPOSSIBLE)
    return answers.judged(found, known.answers)


def judged(sums):
    """How many questions were tested: a batch has windows, of which a question has some."""
    return int(sums[2])


def score(sums):
    """The mean F1, a share of 1."""
    return sums[1] / sums[2]


def exact_match(sums):
    """The share of the test questions whose answer is exactly a true one."""
    return sums[0] / sums[2]


def flops_per_sample(dimensions, scenario):
    """FLOPs a window: 213 GFLOP to train one of 384 tokens; training is 3 x the forward pass.

    Counted are products of matrices, a multiply-add as 2: the encoder, attention's two products
    (4 s^2 h a layer), and the heads; an inference tries BEAM starts. Left out are lookups of
    embeddings, layer norms, softmax, GELU, tanh, dropout, the choice of starts, loss, clipping,
    optimiser and input, and what is computed a second time.
    """
    tokens = dimensions["sequence_length"]
    starts = BEAM if scenario == "infer" else 1
    encoder = encoders.multiply_adds(LAYERS, tokens, WIDTH, INNER_WIDTH)
    start = tokens * WIDTH
    end = tokens * WIDTH * WIDTH + starts * (WIDTH * WIDTH + tokens * WIDTH)
    answer = tokens * WIDTH + 2 * WIDTH * WIDTH + WIDTH
    return (2.0 if scenario == "infer" else 6.0) * (encoder + start + end + answer)


WORKLOAD = Workload(
    title="ELECTRA-Base on SQuAD",
    summary="questions answered by a piece of a paragraph, 111,255,553 parameters.",
    unit="sequences",
    dimensions=DIMENSIONS,
    data=DATA,
    ways=("accumulation",),
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=encoders.base,
    flops_per_sample=flops_per_sample,
    answers=(4, 5, 6, 7),  # starts, ends, impossible, windows
    has_dropout=True,
    schedule=schedule,
    released=released,
    tokens_per_sample=encoders.tokens_per_sample,
    quality=Quality(
        score=Score(
            "F1",
            "%",
            "higher",
            "The mean F1 of the test questions' answers, 0.0 to 1.0, that is to be reached.",
            scale=100,
            most=1.0,
        ),
        tally=tally,
        value=score,
        kept=kept,
        judged=judged,
        more={
            "exact_match": (
                Score(
                    "exact match",
                    "%",
                    "higher",
                    "The share of the test questions whose answer is exactly a true one.",
                    scale=100.0,
                    most=1.0,
                ),
                exact_match,
            )
        },
    ),
    unsupported_in=unsupported_in,
)
