"""What the facts of encoders share: names of tensors."""


def is_scale(name):
    """Whether a tensor is the scale of a layer norm, which starts at 1."""
    return "norm" in name and name.endswith("weight")
