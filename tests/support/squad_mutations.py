"""Wrong settings of ELECTRA on SQuAD: (name, what stands in the page, what replaces it, layout).

Each is one that somebody could get wrong, or that public code has. WRONG are PyTorch's; what
another framework has of them has the same name.
"""

WRONG = (
    ("the same rate in all layers", "facts.rate_share(name),", "1.0,", "1"),
    (
        "rates that fall upwards",
        "facts.rate_share(name),",
        "facts.LAYER_DECAY ** (facts.LAYERS + 2) / facts.rate_share(name),",
        "1",
    ),
    (
        "the end ignores the start",
        "+ self.end_start(chosen)[:, :, None]",
        "+ 0 * self.end_start(chosen)[:, :, None]",
        "1",
    ),
    (
        "the end follows the likeliest start",
        "self.ends(x, first[:, None], allowed)",
        "self.ends(x, starts.argmax(-1)[:, None], allowed)",
        "1",
    ),
    (
        "losses summed over windows",
        "F.cross_entropy(starts, first) + F.cross_entropy(ends, last)",
        "F.cross_entropy(starts, first, reduction='sum')"
        " + F.cross_entropy(ends, last, reduction='sum')",
        "1",
    ),
    (
        "start and end weigh twice",
        "F.cross_entropy(ends, last)) / 2",
        "F.cross_entropy(ends, last))",
        "1",
    ),
    (
        "no segments",
        "self.segment_embedding(segments)",
        "self.segment_embedding(0 * segments)",
        "1",
    ),
    (
        "padding is attended to",
        "attention_bias(mask, x.dtype)",
        "attention_bias(torch.ones_like(mask), x.dtype)",
        "1",
    ),
    (
        "a start may stand in the question",
        "return self.start(x)[:, :, 0] - facts.BLOCKED * (1 - allowed)",
        "return self.start(x)[:, :, 0]",
        "1",
    ),
    (
        "an end may stand in the question",
        "return scores - facts.BLOCKED * (1 - allowed[:, None])",
        "return scores",
        "1",
    ),
    (
        "whether there is an answer weighs as much as where",
        "facts.ANSWERABLE_WEIGHT * answer",
        "answer",
        "1",
    ),
    (
        "whether there is an answer is not trained",
        "pieces + facts.ANSWERABLE_WEIGHT * answer",
        "pieces + 0 * answer",
        "1",
    ),
    ("GELU in the end's head", "torch.tanh(hidden)", "F.gelu(hidden)", "1"),
    (
        "decay on biases",
        "facts.WEIGHT_DECAY * (parameter.ndim > 1)",
        "facts.WEIGHT_DECAY",
        "1",
    ),
    ("micro-steps summed", "value = value / run.accumulation", "value = value / 1", "acc2"),
    ("no clip", "adam.register_step_pre_hook(clip)", "clip", "1"),
)
TENSORFLOW1 = (
    ("the same rate in all layers", "facts.rate_share(name) for", "1.0 for", "1"),
    ("a decay at the whole rate", "(rate * self.decay", "(self.rate * self.decay", "1"),
    (
        "the end follows the likeliest start",
        "end_scores(x, first[:, None], allowed)",
        "end_scores(x, tf.argmax(starts, -1)[:, None], allowed)",
        "1",
    ),
    (
        "the end's norm before its tanh",
        "normalised(facts.LAYER_NORM_EPSILON)(tf.tanh(hidden))",
        "tf.tanh(normalised(facts.LAYER_NORM_EPSILON)(hidden))",
        "1",
    ),
    (
        "padding is attended to",
        "attention_bias(run, mask)",
        "attention_bias(run, tf.ones_like(mask))",
        "1",
    ),
    ("micro-steps summed", "total / run.accumulation", "total / 1", "acc2"),
    ("no clip", "if self.clip_norm:", "if False:", "1"),
)
ONEFLOW = (
    ("the same rate in all layers", 'rate * group["share"]', "rate", "1"),
    ("decay on biases", "facts.WEIGHT_DECAY * (parameter.ndim > 1)", "facts.WEIGHT_DECAY", "1"),
    ("the end ignores the start", "+ start.unsqueeze(2)", "+ 0 * start.unsqueeze(2)", "1"),
    (
        "an end may stand in the question",
        "return scores - facts.BLOCKED * (1 - allowed.unsqueeze(1))",
        "return scores",
        "1",
    ),
    (
        "whether there is an answer weighs as much as where",
        "facts.ANSWERABLE_WEIGHT * answer",
        "answer",
        "1",
    ),
    ("micro-steps summed", "value = value / run.accumulation", "value = value / 1", "acc2"),
    (
        "each group of parameters is clipped by itself, as in nn.Graph",
        "clip([each.grad for each in parameters], self.clip_norm)",
        "[clip([p.grad for p in each.parameters], self.clip_norm) for each in self.param_groups]",
        "1",
    ),
    (  # of the kernel, which float64 steps do not take
        "no correction of the moments",
        "eps=facts.EPSILON, fused=fused",
        "eps=facts.EPSILON, fused=fused, do_bias_correction=False",
        "1",
    ),
)
#: Those that the tier of given gradients shows alone, in the small model.
OF_THE_OPTIMIZER = (
    "no clip",
    "each group of parameters is clipped by itself, as in nn.Graph",
    "no correction of the moments",
)
MINDSPORE = (
    (
        "the same rate in all layers",
        "facts.rate_share(name) for name in named",
        "1.0 for _ in named",
        "1",
    ),
    (
        "the end ignores the start",
        "own + start.reshape(",
        "own + 0 * start.reshape(",
        "1",
    ),
    (
        "padding is attended to",
        "attention_bias(mask, x.dtype)",
        "attention_bias(ops.ones_like(mask), x.dtype)",
        "1",
    ),
    (
        "an end may stand in the question",
        "return scores - facts.BLOCKED * (1 - allowed.expand_dims(1))",
        "return scores",
        "1",
    ),
    (
        "decay on biases",
        "each.ndim > 1 for each in parameters",
        "each.ndim > 0 for each in parameters",
        "1",
    ),
    ("no clip", "rate, facts.CLIP_NORM, shares", "rate, None, shares", "1"),
)
#: Of its answers, and of its training to a quality.
MINDSPORE_INFER = (
    ("answers with dropout", "model(run).set_train(False)", "model(run)", "1"),
    ("starts by their scores", "places, _ = ops.sort(places)", "places = places + 0", "1"),
)
MINDSPORE_QUALITY = (
    (
        "a rate that stays",
        "assign(optimizer.learning_rate, ms.Tensor(rate, optimizer.learning_rate.dtype))",
        "pass",
        "1",
    ),
)
