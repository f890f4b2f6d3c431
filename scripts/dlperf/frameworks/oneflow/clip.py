"""The clip of all gradients together, in OneFlow's eager mode."""

import oneflow as flow


def clip(gradients, most):
    """Scale the gradients, in place, to a norm of at most `most`.

    As nn.utils.clip_grad_norm_, which on a CPU is percents off for millions of floats.
    """
    with flow.no_grad():
        norm = flow.stack([squares(each) for each in gradients]).sum().sqrt()
        scale = (most / norm).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)


def squares(tensor):
    """The sum of a tensor's squares.

    OneFlow's own norms add float32 one by one on a CPU: 2.5 % off for 23 million of them. Its sum
    does not, and takes no longer.
    """
    return tensor.square().sum()
