"""Other words for what configs and command lines name. Standard library: it runs everywhere."""

#: What people call things, where spelling alone would lead to no name or a wrong one.
OTHER_WORDS = {
    "gpu": "cuda",
    "fp16": "amp_fp16",
    "bf16": "amp_bf16",
    "float32": "fp32",
    "torch": "pytorch",
    "tf": "tensorflow",
    "paddle": "paddlepaddle",
    "torch.compile": "inductor",
}
