"""AdamW after a clip by global norm, as plain formulas; NumPy or PyTorch."""

from dlperf.contract.proof import UpdateRule


def norm(gradients):
    """The norm of all gradients together, in float64."""
    return sum(float((each * each).sum()) for each in gradients.values()) ** 0.5


class AdamW(UpdateRule):
    """Loshchilov and Hutter 2017, after a clip of all gradients together.

    g *= min(1, clip / |g|); m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
    w -= rate (m' / (sqrt(v') + epsilon) + decay w), m' = m / (1 - b1^t), v' = v / (1 - b2^t);
    decay on tensors of two dimensions. facts: the module that has the constants, as they are when
    this is made. rate_share(name): what a tensor's rate is multiplied by; None: 1 everywhere.
    norms: of all gradients before the clip, a step each.
    """

    def __init__(self, facts, weights, clip_norm, rate_share=None):
        self.clip_norm, self.epsilon, self.decay = clip_norm, facts.EPSILON, facts.WEIGHT_DECAY
        self.beta1, self.beta2, self.rate_share = facts.BETA1, facts.BETA2, rate_share
        self.first = {name: 0.0 * weight for name, weight in weights.items()}
        self.second = {name: 0.0 * weight for name, weight in weights.items()}
        self.steps, self.norms = 0, []

    def update(self, weights, gradients, learning_rate):
        """The weights after a step: {name: array}."""
        self.steps += 1
        length = norm(gradients)
        self.norms.append(length)
        scale = 1.0 if length <= self.clip_norm else self.clip_norm / length
        correction1, correction2 = 1 - self.beta1**self.steps, 1 - self.beta2**self.steps
        new = {}
        for name, weight in weights.items():
            # in place: of some hundred million weights, every copy counts
            gradient, m, v = scale * gradients[name], self.first[name], self.second[name]
            m *= self.beta1
            m += (1 - self.beta1) * gradient
            v *= self.beta2
            gradient *= gradient
            v += (1 - self.beta2) * gradient
            change = (v / correction2) ** 0.5
            change += self.epsilon
            change = (m / correction1) / change
            if len(weight.shape) > 1:
                change += self.decay * weight
            change *= self.rate(name, weight, change, learning_rate)
            new[name] = weight - change
        return new

    def rate(self, name, weight, change, learning_rate):
        """What a tensor's change is multiplied by."""
        return learning_rate * self.rate_share(name) if self.rate_share else learning_rate
