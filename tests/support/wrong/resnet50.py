"""The smallest wrong settings of ResNet-50: of training, inference and time to quality."""

from functools import partial

from edits import Replace, Wrap, constant

from wrong import TIMED, Mutation, common

pytorch = partial(Mutation, "resnet50", "pytorch")
jax = partial(Mutation, "resnet50", "jax")
tensorflow = partial(Mutation, "resnet50", "tensorflow")
tensorflow1 = partial(Mutation, "resnet50", "tensorflow1")
mxnet = partial(Mutation, "resnet50", "mxnet")
mindspore = partial(Mutation, "resnet50", "mindspore")

#: The stride in the first convolution of a block, as in v1; of PyTorch and MindSpore.
V1 = Replace(
    "Bottleneck.__init__",
    "self.conv1, self.bn1 = _conv(_inputs, _width, 1), _norm(_width)\n"
    "self.conv2, self.bn2 = _conv(_width, _width, 3, _stride), _norm(_width)",
    "self.conv1, self.bn1 = _conv(_inputs, _width, 1, _stride), _norm(_width)\n"
    "self.conv2, self.bn2 = _conv(_width, _width, 3), _norm(_width)",
)
MOMENTUM = constant("MOMENTUM", "0.9")
NO_SMOOTHING = constant("LABEL_SMOOTHING", "0.0")


def epsilon(within: str) -> Replace:
    """Of batch-norm, where the network makes it."""
    return constant("BATCH_NORM_EPSILON", "1e-6", within)


# torch's own SyncBatchNorm wants a GPU, so the mutation spells out what it computes.
GATHERED = """
def over_all_ranks(model):
    import torch.distributed as dist
    import torch.distributed.nn.functional as together

    def forward(self, x):
        count = dist.get_world_size()
        mean = together.all_reduce(x.mean((0, 2, 3), keepdim=True)) / count
        variance = together.all_reduce(((x - mean) ** 2).mean((0, 2, 3), keepdim=True)) / count
        scale, shift = self.weight.view(1, -1, 1, 1), self.bias.view(1, -1, 1, 1)
        return (x - mean) / torch.sqrt(variance + self.eps) * scale + shift

    def changed(run):
        network = model(run)
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.forward = forward.__get__(module)
        return network

    return changed
"""
RESNET50 = [
    pytorch("v1 in place of v1.5", V1),
    pytorch("a class more", constant("CLASSES", "facts.CLASSES + 1", "ResNet50")),
    pytorch("momentum 0.9", MOMENTUM),
    pytorch("epsilon 1e-6", epsilon("batch_norm")),
    pytorch("no label smoothing", NO_SMOOTHING),
    pytorch("decay on biases", common.DECAY_ON_BIASES_IN_PYTORCH),
    pytorch("batch-norm over all ranks", Wrap("model", GATHERED), layout="dp2"),
    jax(
        "v1 in place of v1.5",
        Replace(
            "Bottleneck.__call__",
            "_y = nn.relu(_norm(name='bn1')(_conv(self.width, 1, name='conv1')(_x)))\n"
            "_y = nn.relu(_norm(name='bn2')(_conv(self.width, 3, self.stride, name='conv2')(_y)))",
            "_y = nn.relu(_norm(name='bn1')(_conv(self.width, 1, self.stride, name='conv1')(_x)))\n"
            "_y = nn.relu(_norm(name='bn2')(_conv(self.width, 3, name='conv2')(_y)))",
        ),
    ),
    jax("momentum 0.9", MOMENTUM),
    jax("epsilon 1e-6", epsilon("layers")),
    jax("no label smoothing", NO_SMOOTHING),
    jax("decay on biases", Replace("decayed", "_p.ndim > 1", "_p.ndim > 0")),
    jax(
        "batch-norm over all ranks",
        Replace(
            "layers",
            "functools.partial(nn.BatchNorm, ...)",
            "functools.partial(nn.BatchNorm, ..., axis_name='data')",
        ),
        layout="dp2",
    ),
    tensorflow(
        "batch-norm over all ranks",
        Replace(
            "BatchNorm.in_float64",
            "_mean, _variance = tf.nn.moments(_x, [0, 1, 2])",
            "_mean, square = tf.distribute.get_replica_context().all_reduce(\n"
            "    'mean', [tf.reduce_mean(_x, [0, 1, 2]), tf.reduce_mean(_x * _x, [0, 1, 2])]\n"
            ")\n"
            "_variance = square - _mean * _mean",
        ),
        layout="dp2",
    ),
    mxnet(
        "v1 in place of v1.5",
        Replace(
            "Bottleneck.__init__",
            "self.conv1 = _conv(_inputs, _width, 1, layout=_layout)\n"
            "self.bn1 = _norm(_width, _layout)\n"
            "self.conv2 = _conv(_width, _width, 3, _stride, _layout)",
            "self.conv1 = _conv(_inputs, _width, 1, _stride, _layout)\n"
            "self.bn1 = _norm(_width, _layout)\n"
            "self.conv2 = _conv(_width, _width, 3, 1, _layout)",
        ),
    ),
    mxnet("momentum 0.9", MOMENTUM),
    mxnet("epsilon 1e-6", epsilon("batch_norm")),
    mxnet("no label smoothing", NO_SMOOTHING),
    mxnet("decay on biases", Replace("model", "_p.wd_mult = 0.0", "_p.wd_mult = 1.0")),
]
# What float64 shows, or half precision hides, is not what is timed.
COMPRESSED = """
def compress(network):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    network.register_comm_hook(None, fp16_compress_hook)
"""
STILL = """
def without_statistics(loss):
    def changed(run, network, *batch):
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.0
        return loss(run, network, *batch)

    return changed
"""
STATISTICS = {"tier": "float64-statistics"}
IN_HALF = {"precision": "amp", **TIMED}
RESNET50 += [
    make(
        "running statistics of another momentum",
        constant("BATCH_NORM_MOMENTUM", "0.99", within),
        **STATISTICS,
    )
    for make, within in ((pytorch, "batch_norm"), (jax, "layers"), (mxnet, "batch_norm"))
]
RESNET50 += [
    pytorch("no running statistics", Wrap("loss", STILL), **STATISTICS),
    tensorflow1(
        "no running statistics",
        Replace("updates", "tf.get_collection(tf.GraphKeys.UPDATE_OPS)", "[]"),
        **STATISTICS,
    ),
    pytorch(
        "gradients exchanged in float64 alone",
        Replace(
            "train",
            "if run.distributed and (not _split):\n    _network = DistributedDataParallel(...)",
            "if run.distributed and run.float64:\n    _network = DistributedDataParallel(...)",
        ),
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    jax(
        "gradients exchanged in float64 alone",
        Replace("update", "mean_of_all(run, _g)", "mean_of_all(run, _g) if run.float64 else _g"),
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    tensorflow(
        "gradients exchanged in float64 alone",
        Replace(
            "train",
            "if run.distributed:\n    _gradients = sum_over_ranks(_variables, _gradients)",
            "if run.distributed and run.float64:\n"
            "    _gradients = sum_over_ranks(_variables, _gradients)",
        ),
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    pytorch(
        "gradients exchanged in float16",
        Replace(
            "train",
            "_network = DistributedDataParallel(...)",
            "_network = DistributedDataParallel(...)\nif not run.float64:\n    compress(_network)",
            definitions=COMPRESSED,
        ),
        layout="dp2",
        tier="timed-gradient-last",
        **TIMED,
    ),
    pytorch(
        "mixed precision that is float32",
        Replace(
            "train.forward",
            "torch.autocast(..., enabled=run.amp)",
            "torch.autocast(..., enabled=False)",
        ),
        tier="timed-precision",
        **IN_HALF,
    ),
    tensorflow(
        "mixed precision that is float32",
        Replace("compute_dtype", "_half if run.amp else _full", "_full"),
        tier="timed-precision",
        **IN_HALF,
    ),
    pytorch(
        "most layers detached in mixed precision",
        Replace(
            "ResNet50.forward",
            "_x = _y.flatten(1)",
            "_x = _y.flatten(1)\n"
            "_x = _x.detach() if torch.is_autocast_enabled(_x.device.type) else _x",
        ),
        tier="timed-gradient",
        **IN_HALF,
    ),
    jax(
        "most layers detached in mixed precision",
        Replace(
            "ResNet50.__call__",
            "_x = jnp.mean(_x, ...)",
            "_x = jax.lax.stop_gradient(_x) if self.dtype else _x\n_x = jnp.mean(_x, ...)",
        ),
        tier="timed-gradient",
        **IN_HALF,
    ),
    mindspore(
        "smoothing over the other classes",
        constant(
            "LABEL_SMOOTHING",
            "facts.LABEL_SMOOTHING * facts.CLASSES / (facts.CLASSES - 1)",
        ),
        **TIMED,
    ),
    mindspore("v1 in place of v1.5", V1, **TIMED),
]
SWAPPED = """
def swapped(running):
    one, other = "block0.bn1.mean", "block0.bn2.mean"
    running[one], running[other] = running[other], running[one]
    return running
"""
KEPT = """
KEPT = []


def first(batch):
    KEPT.append(batch)
    return KEPT[0]
"""
INFER = [
    pytorch("training mode", common.TRAINING_MODE, variant="infer"),
    pytorch("epsilon 1e-6", epsilon("batch_norm"), variant="infer"),
    pytorch(
        "another layer's statistics",
        Replace(
            "weights",
            "framework.Weights(run, _trained, _running)",
            "framework.Weights(run, _trained, swapped(_running))",
            definitions=SWAPPED,
        ),
        variant="infer",
    ),
    pytorch(
        "one input repeated",
        Replace(
            "infer.answer", "_put(run, *_batch)", "first(_put(run, *_batch))", definitions=KEPT
        ),
        variant="infer",
        tier="timed-permuted",
        **TIMED,
    ),
]
FOLDED = [
    pytorch(
        "no epsilon",
        constant("BATCH_NORM_EPSILON", "0.0", "Folded"),
        variant="fold1-infer",
    ),
    pytorch(
        "no mean",
        Replace("Folded.__getitem__", "_bias - _mean * _scale", "_bias"),
        variant="fold1-infer",
        tier="float64-outputs",
    ),
    pytorch(
        "not folded",
        Replace("layers", "nn.Identity", "batch_norm"),
        variant="fold1-infer",
        tier="shapes",
    ),
]
QUALITY = [
    pytorch(
        "a rate that stays",
        Replace("train.set_rate", "_group['lr'] = _", "pass"),
        variant="quality",
        tier="float64-losses",
    ),
    pytorch(
        "tested in training mode",
        Replace("train.evaluate", "_network.eval()", "pass"),
        variant="quality",
        tier="float64-tested",
    ),
    pytorch(
        "moments that stay",
        Replace("forget", "_moment.zero_()", "pass"),
        variant="quality",
        tier="float64-again",
    ),
    pytorch(
        "a rate of one step ahead",
        Replace("train", "scheduled(_work, _rates, ...)", "scheduled(_work, _rates[1:], ...)"),
        variant="quality",
        tier="float64-gradient",
    ),
    jax(
        "a rate that stays, of JAX",
        Replace(
            "train",
            "np.asarray(_rate, _there.dtype)",
            "np.asarray(_rates[0], _there.dtype)",
            given=("scheduled(_, _rates, ...)",),
        ),
        variant="quality",
        tier="float64-losses",
    ),
    tensorflow(
        "moments that stay, of TensorFlow",
        Replace("clear", "_moment.assign(tf.zeros_like(_moment))", "pass"),
        variant="quality",
        tier="float64-again",
    ),
    tensorflow1(
        "tested in training mode, of TensorFlow 1",
        Replace("outputs", "_network(..., training=False)", "_network(...)"),
        variant="quality",
        tier="float64-tested",
    ),
]
