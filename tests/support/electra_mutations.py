"""Wrong settings of ELECTRA by framework: (name, what stands there, what replaces it, layout).

Each is one that somebody could get wrong, or that public code has. What JAX and PaddlePaddle have
of PyTorch's has the same name.
"""

PYTORCH = (
    ("a generator of a quarter of the width", "facts.GENERATOR_WIDTH", "192", "1"),
    (
        "the discriminator without segments",
        "x = self.embed(tokens, segments)\n        for layer in self.discriminator",
        "x = self.embed(tokens, 0 * segments)\n        for layer in self.discriminator",
        "1",
    ),
    (
        "a norm of the embeddings that the discriminator does not share",
        "x = self.embed(tokens, segments)\n        for layer in self.discriminator",
        "x = self.word_embedding(tokens) + self.segment_embedding(segments)\n"
        "        x = x + self.position_embedding.weight[: tokens.shape[1]]\n"
        "        x = F.layer_norm(x, [facts.WIDTH], eps=facts.LAYER_NORM_EPSILON)\n"
        "        for layer in self.discriminator",
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
JAX = (
    (
        "both losses weigh the same",
        "facts.DISCRIMINATOR_WEIGHT * discriminator",
        "discriminator",
        "1",
    ),
    ("padding counts", "jnp.sum(each * mask) / jnp.sum(mask)", "jnp.mean(each)", "1"),
    (
        "a true guess is called a replacement",
        "fake = inputs != tokens.at[rows, positions].set(labels)",
        "fake = jnp.zeros_like(mask).at[rows, positions].set(chosen) > 0",
        "1",
    ),
    ("no noise", "jnp.argmax(scores + noise, -1)", "jnp.argmax(scores, -1)", "1"),
    (  # optax.lamb has it
        "a ratio on biases",
        "optax.masked(optax.scale_by_trust_ratio(), decayed)",
        "optax.scale_by_trust_ratio()",
        "1",
    ),
    (
        "each rank clips its own gradients",
        "        gradients = dict(mean_of_all(run, gradients), **there)\n",
        "        from dlperf.frameworks.jax.clip import clip\n"
        "        from dlperf.workloads.electra import facts\n\n"
        "        gradients, _ = clip(facts.CLIP_NORM).update(gradients, ())\n"
        "        gradients = dict(mean_of_all(run, gradients), **there)\n",
        "dp2",
    ),
)
PADDLEPADDLE = (
    (
        "both losses weigh the same",
        "facts.DISCRIMINATOR_WEIGHT * ((each * mask)",
        "((each * mask)",
        "1",
    ),
    ("padding counts", "((each * mask).sum() / mask.sum())", "each.mean()", "1"),
    (
        "a true guess is called a replacement",
        "fake = filled != tokens.put_along_axis(positions, labels, 1)",
        "fake = paddle.zeros_like(tokens).put_along_axis(\n"
        "            positions, used.astype(tokens.dtype), 1\n"
        "        ) > 0",
        "1",
    ),
    ("no noise", "(scores + noise.reshape(scores.shape)).argmax(-1)", "scores.argmax(-1)", "1"),
    (
        "a ratio on biases",
        "lambda p: p.ndim == 1 or not facts.ADAPTIVE",
        "lambda p: not facts.ADAPTIVE",
        "1",
    ),
)
ONEFLOW = (
    (
        "decay outside of the ratio, as OneFlow's own",
        "squares(change))",
        "squares(change - self.decay * weight))",
        "1",
    ),
    (
        "OneFlow's own norm",
        "tensor.square().sum()",
        "flow.linalg.vector_norm(tensor).square()",
        "1",
    ),
    (
        "unused places are filled too",
        "flow.where(chosen > 0, sample(words.detach(), noise), labels)",
        "sample(words.detach(), noise)",
        "1",
    ),
    (
        "a true guess is called a replacement",
        "filled != flow.scatter(tokens, 1, positions, labels)",
        "filled != tokens",
        "1",
    ),
    ("micro-steps summed", "value = value / run.accumulation", "value = value / 1", "acc2"),
)
#: TensorFlow 1's table is shared by hand, and its LAMB is of the fused Adam.
TENSORFLOW1 = (
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
#: Those that the tier of given gradients shows alone.
OF_THE_OPTIMIZER = ("a ratio of at most 10", "no clip", "OneFlow's own norm")
