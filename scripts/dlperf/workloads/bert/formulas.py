"""Neutral weights and the optimiser as formulas, for the reference and for certificates."""

from dlperf.workloads.bert import facts

# Of the gradients given to the optimiser alone, a step each: the second lies above the clip's norm,
# the others below; and an epsilon of 1e-6 shows beside the first.
GIVEN_SCALES = (1e-5, 1.0, 1e-4)


def neutral(name, shape, random):
    """Neutral weights, float32, that make settings visible; `random` is a NumPy RandomState.

    Weights twice as wide as usual, so that attention is not uniform; scales around one; no bias is
    zero, so that weight decay on one shows.
    """
    if len(shape) == 2:
        return 2 * facts.INITIAL_DEVIATION * random.standard_normal(shape)
    if "norm" in name and name.endswith("weight"):
        return random.uniform(0.75, 1.25, shape)
    return 0.1 * random.standard_normal(shape)


def norm(gradients):
    """The norm of all gradients together."""
    return sum((each * each).sum() for each in gradients.values()) ** 0.5


class Optimizer:
    """AdamW, after a clip by global norm.

    g *= min(1, CLIP_NORM / |g|); m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
    w -= rate (m' / (sqrt(v') + epsilon) + decay w), m' = m / (1 - b1^t), v' = v / (1 - b2^t);
    decay on tensors of two dimensions. Settings are taken from the facts when it is made.
    """

    def __init__(self, weights, dimensions):
        self.clip_norm = facts.CLIP_NORM if dimensions["clip"] else float("inf")
        self.epsilon, self.decay = facts.EPSILON, facts.WEIGHT_DECAY
        self.first = {name: 0.0 * weight for name, weight in weights.items()}
        self.second = {name: 0.0 * weight for name, weight in weights.items()}
        self.steps = 0
        self.norms = []  # before the clip, a step each

    def update(self, weights, gradients, learning_rate):
        """The weights after a step: {name: array}; NumPy or PyTorch."""
        self.steps += 1
        length = float(norm(gradients))
        self.norms.append(length)
        scale = 1.0 if length <= self.clip_norm else self.clip_norm / length
        correction1 = 1 - facts.BETA1**self.steps
        correction2 = 1 - facts.BETA2**self.steps
        new = {}
        for name, weight in weights.items():
            # in place: of the 110 million weights, every copy counts
            gradient, m, v = scale * gradients[name], self.first[name], self.second[name]
            m *= facts.BETA1
            m += (1 - facts.BETA1) * gradient
            v *= facts.BETA2
            gradient *= gradient
            v += (1 - facts.BETA2) * gradient
            change = (v / correction2) ** 0.5
            change += self.epsilon
            change = (m / correction1) / change
            if len(weight.shape) > 1:
                change += self.decay * weight
            change *= learning_rate
            new[name] = weight - change
        return new
