"""The smallest wrong settings of ResNet-50."""

from wrong import TIMED, Mutation

# torch's own SyncBatchNorm wants a GPU, so the mutation spells out what it computes.
GATHERED = """

def gather_statistics(network):
    import torch.distributed as dist
    import torch.distributed.nn.functional as together

    def forward(self, x):
        count = dist.get_world_size()
        mean = together.all_reduce(x.mean((0, 2, 3), keepdim=True)) / count
        variance = together.all_reduce(((x - mean) ** 2).mean((0, 2, 3), keepdim=True)) / count
        scale, shift = self.weight.view(1, -1, 1, 1), self.bias.view(1, -1, 1, 1)
        return (x - mean) / torch.sqrt(variance + self.eps) * scale + shift

    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.forward = forward.__get__(module)
"""
RESNET50 = [
    Mutation(
        "v1 in place of v1.5",
        "pytorch",
        "none",
        "self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)",
        "self.conv1, self.bn1 = conv(inputs, width, 1, stride), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3), batch_norm(width)",
    ),
    Mutation("a class more", "pytorch", "none", "facts.CLASSES)", "facts.CLASSES + 1)"),
    Mutation("momentum 0.9", "pytorch", "none", "momentum=facts.MOMENTUM", "momentum=0.9"),
    Mutation("epsilon 1e-6", "pytorch", "none", "eps=facts.BATCH_NORM_EPSILON", "eps=1e-6"),
    Mutation(
        "no label smoothing",
        "pytorch",
        "none",
        "label_smoothing=facts.LABEL_SMOOTHING",
        "label_smoothing=0.0",
    ),
    Mutation(
        "decay on biases",
        "pytorch",
        "none",
        '"weight_decay": 0.0',
        '"weight_decay": decay',
    ),
    Mutation(
        "batch-norm over all ranks",
        "pytorch",
        "none",
        "    network = model(run)\n    return",
        "    network = model(run)\n    gather_statistics(network)\n    return",
        layout="dp2",
        more=GATHERED,
    ),
    Mutation(
        "v1 in place of v1.5",
        "jax",
        "xla",
        'conv(self.width, 1, name="conv1")(x)))\n'
        '        y = nn.relu(norm(name="bn2")(conv(self.width, 3, self.stride, name="conv2")(y)))',
        'conv(self.width, 1, self.stride, name="conv1")(x)))\n'
        '        y = nn.relu(norm(name="bn2")(conv(self.width, 3, name="conv2")(y)))',
    ),
    Mutation("momentum 0.9", "jax", "xla", ", facts.MOMENTUM)", ", 0.9)"),
    Mutation("epsilon 1e-6", "jax", "xla", "epsilon=facts.BATCH_NORM_EPSILON", "epsilon=1e-6"),
    Mutation("no label smoothing", "jax", "xla", "facts.LABEL_SMOOTHING)", "0.0)"),
    Mutation(
        "decay on biases", "jax", "xla", "p: p.ndim > 1, parameters", "p: p.ndim > 0, parameters"
    ),
    Mutation(
        "batch-norm over all ranks",
        "jax",
        "xla",
        "        epsilon=facts.BATCH_NORM_EPSILON,\n",
        '        epsilon=facts.BATCH_NORM_EPSILON,\n        axis_name="ranks",\n',
        layout="dp2",
    ),
    Mutation(
        "batch-norm over all ranks",
        "tensorflow",
        "none",
        "            mean, variance = tf.nn.moments(x, [0, 1, 2])\n",
        "            mean, square = tf.distribute.get_replica_context().all_reduce(\n"
        '                "mean", [tf.reduce_mean(x, [0, 1, 2]), tf.reduce_mean(x * x, [0, 1, 2])]\n'
        "            )\n"
        "            variance = square - mean * mean\n",
        layout="dp2",
    ),
    Mutation(
        "v1 in place of v1.5",
        "mxnet",
        "static",
        "self.conv1 = conv(inputs, width, 1, layout=layout)\n"
        "        self.bn1 = batch_norm(width, layout)\n"
        "        self.conv2 = conv(width, width, 3, stride, layout)",
        "self.conv1 = conv(inputs, width, 1, stride, layout)\n"
        "        self.bn1 = batch_norm(width, layout)\n"
        "        self.conv2 = conv(width, width, 3, 1, layout)",
    ),
    Mutation("momentum 0.9", "mxnet", "static", "momentum=facts.MOMENTUM", "momentum=0.9"),
    Mutation("epsilon 1e-6", "mxnet", "static", "facts.BATCH_NORM_EPSILON,", "1e-6,"),
    Mutation("no label smoothing", "mxnet", "static", "= facts.LABEL_SMOOTHING", "= 0.0"),
    Mutation(
        "decay on biases", "mxnet", "static", "parameter.wd_mult = 0.0", "parameter.wd_mult = 1.0"
    ),
]
# What float64 shows, or half precision hides, is not what is timed.
COMPRESSED = """

def compress(network):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    network.register_comm_hook(None, fp16_compress_hook)
"""
RESNET50 += [
    Mutation(
        "running statistics of another momentum",
        "pytorch",
        "none",
        "momentum=1 - facts.BATCH_NORM_MOMENTUM",
        "momentum=0.01",
        tier="float64-statistics",
    ),
    Mutation(
        "running statistics of another momentum",
        "jax",
        "xla",
        "momentum=facts.BATCH_NORM_MOMENTUM",
        "momentum=0.99",
        tier="float64-statistics",
    ),
    Mutation(
        "running statistics of another momentum",
        "mxnet",
        "static",
        "facts.BATCH_NORM_MOMENTUM,",
        "0.99,",
        tier="float64-statistics",
    ),
    Mutation(
        "no running statistics",
        "pytorch",
        "none",
        "    return F.cross_entropy(",
        "    for module in network.modules():\n"
        "        if isinstance(module, nn.BatchNorm2d):\n"
        "            module.momentum = 0.0\n"
        "    return F.cross_entropy(",
        tier="float64-statistics",
    ),
    Mutation(
        "no running statistics",
        "tensorflow1",
        "none",
        "statistics = tf.get_collection(tf.GraphKeys.UPDATE_OPS)",
        "statistics = []",
        tier="float64-statistics",
    ),
    Mutation(
        "gradients exchanged in float64 alone",
        "pytorch",
        "none",
        "    if run.distributed:\n        network = DistributedDataParallel(",
        "    if run.distributed and run.float64:\n        network = DistributedDataParallel(",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "gradients exchanged in float64 alone",
        "jax",
        "xla",
        "    if run.distributed:\n        gradients = mean",
        "    if run.distributed and run.float64:\n        gradients = mean",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "gradients exchanged in float64 alone",
        "tensorflow",
        "none",
        "        if run.distributed:\n            gradients = tf.distribute",
        "        if run.distributed and run.float64:\n            gradients = tf.distribute",
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "gradients exchanged in float16",
        "pytorch",
        "none",
        "    narrow = half(run) if run.amp else None\n",
        "    if not run.float64:\n        compress(network)\n"
        "    narrow = half(run) if run.amp else None\n",
        layout="dp2",
        more=COMPRESSED,
        tier="timed-gradient-last",
        **TIMED,
    ),
    Mutation(
        "mixed precision that is float32",
        "pytorch",
        "none",
        "enabled=run.amp):",
        "enabled=False):",
        precision="amp",
        tier="timed-precision",
        **TIMED,
    ),
    Mutation(
        "mixed precision that is float32",
        "tensorflow",
        "none",
        "return tf.as_dtype(half(run)) if run.amp else dtype()",
        "return dtype()",
        precision="amp",
        tier="timed-precision",
        **TIMED,
    ),
    Mutation(
        "most layers detached in mixed precision",
        "pytorch",
        "none",
        "        x = self.average(self.blocks(x)).flatten(1)",
        "        x = self.average(self.blocks(x)).flatten(1)\n"
        "        x = x.detach() if torch.is_autocast_enabled(x.device.type) else x",
        precision="amp",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "most layers detached in mixed precision",
        "jax",
        "xla",
        "        x = jnp.mean(x, axis=(1, 2)",
        "        x = jax.lax.stop_gradient(x) if self.dtype else x\n"
        "        x = jnp.mean(x, axis=(1, 2)",
        precision="amp",
        tier="timed-gradient",
        **TIMED,
    ),
    Mutation(
        "smoothing over the other classes",
        "mindspore",
        "graph",
        "    return ops.cross_entropy(outputs, labels, label_smoothing=facts.LABEL_SMOOTHING)",
        "    share = facts.LABEL_SMOOTHING * facts.CLASSES / (facts.CLASSES - 1)\n"
        "    return ops.cross_entropy(outputs, labels, label_smoothing=share)",
        **TIMED,
    ),
    Mutation(
        "v1 in place of v1.5",
        "mindspore",
        "graph",
        "self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)",
        "self.conv1, self.bn1 = conv(inputs, width, 1, stride), batch_norm(width)\n"
        "        self.conv2, self.bn2 = conv(width, width, 3), batch_norm(width)",
        **TIMED,
    ),
]
