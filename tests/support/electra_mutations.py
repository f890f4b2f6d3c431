"""Wrong settings of ELECTRA: (name, what stands in the source, what replaces it, layout).

Each is one that somebody could get wrong, or that public code has. WRONG are of PyTorch.
"""

WRONG = (
    ("a generator of a quarter of the width", "facts.GENERATOR_WIDTH", "192", "1"),
    (
        "the discriminator without segments",
        "x = self.embed(tokens, segments)\n        for layer in self.discriminator",
        "x = self.embed(tokens, 0 * segments)\n        for layer in self.discriminator",
        "1",
    ),
    (
        "embeddings that only the generator trains",
        "x = self.embed(tokens, segments)\n        for layer in self.discriminator",
        "x = self.embed(tokens, segments).detach()\n        for layer in self.discriminator",
        "1",
    ),
    (
        "both losses weigh the same",
        "facts.DISCRIMINATOR_WEIGHT * discriminator",
        "discriminator",
        "1",
    ),
    (
        "the discriminator's loss over chosen places alone",
        "(each * mask).sum() / mask.sum()",
        "(each.gather(1, positions) * chosen).sum() / chosen.sum()",
        "1",
    ),
    ("padding counts", "(each * mask).sum() / mask.sum()", "each.mean()", "1"),
    (
        "a true guess is called a replacement",
        "fake = replaced != tokens.scatter(1, positions, labels)",
        "fake = torch.zeros_like(tokens).scatter(1, positions, chosen.long()) > 0",
        "1",
    ),
    ("no noise", "(scores + noise).argmax(-1)", "scores.argmax(-1)", "1"),
    ("noise alone", "(scores + noise).argmax(-1)", "noise.argmax(-1)", "1"),
    (
        "hidden words stay hidden in the second input",
        "replaced = tokens.scatter(1, positions, samples)",
        "replaced = torch.where(tokens == 4, 4, tokens.scatter(1, positions, samples))",
        "1",
    ),
    ("a ratio on biases", "dict(others, adaptive=False)", "dict(others, adaptive=True)", "1"),
    (
        "decay on biases",
        "dict(others, adaptive=False)",
        "dict(others, adaptive=False, weight_decay=facts.WEIGHT_DECAY)",
        "1",
    ),
    ("a ratio of at most 10", "w / u, 1.0)", "(w / u).clamp(max=10), 1.0)", "1"),
    (
        "decay outside of the ratio",
        "norms(change))",
        "norms(torch._foreach_sub(change, weights, alpha=group['weight_decay'])))",
        "1",
    ),
    (
        "no correction of the second moment",
        "root = (1 - beta2**self.steps) ** 0.5\n        torch._foreach_add_",
        "root = 1.0\n        torch._foreach_add_",
        "1",
    ),
    (
        "no correction of the first moment",
        "_foreach_div_(change, root / (1 - beta1**self.steps))",
        "_foreach_div_(change, root)",
        "1",
    ),
    ("micro-steps summed", "value = value / run.accumulation", "value = value / 1", "acc2"),
    ("no clip", "foreach=True)", "foreach=True) if False else None", "1"),
)
#: Those that the tier of given gradients shows alone.
OF_THE_OPTIMIZER = ("a ratio of at most 10", "no clip")
#: TensorFlow 1's table is shared by hand, and its LAMB is of the fused Adam.
WRONG_IN_TENSORFLOW1 = (
    (
        "a lookup that does not train its words",
        "for rows in given[:-1]:",
        "for rows in given[:-2]:",
        "1",
    ),
    (
        "a true guess is called a replacement",
        "tf.not_equal(filled, put(tokens, positions, labels))",
        "put(tf.zeros_like(tokens), positions, tf.cast(used, tf.int32)) > 0",
        "1",
    ),
    ("no noise", "tf.argmax(scores + noise", "tf.argmax(scores + 0 * noise", "1"),
    (
        "decay outside of the ratio",
        "tf.global_norm([wanted])",
        "tf.global_norm([wanted - self.decay * variable])",
        "1",
    ),
    ("no correction of the first moment", "root / correction1 ", "root ", "1"),
)
