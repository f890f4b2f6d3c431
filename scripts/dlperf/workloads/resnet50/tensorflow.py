"""ResNet-50 v1.5 in TensorFlow 2."""

import tensorflow as tf

from dlperf.frameworks import tensorflow as framework
from dlperf.measure.run import Work, feed
from dlperf.workloads.resnet50 import facts


class Conv(tf.Module):
    def __init__(self, inputs, outputs, size, stride=1):
        super().__init__()
        normal = tf.keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
        self.weight = tf.Variable(normal((size, size, inputs, outputs)), name="weight")
        self.stride = stride
        edge = [size // 2, size // 2]
        self.padding = [[0, 0], edge, edge, [0, 0]] if size > 1 and stride > 1 else None

    def __call__(self, x):
        if self.padding:
            x = tf.pad(x, self.padding)
        padding = "VALID" if self.padding else "SAME"
        return tf.nn.conv2d(x, tf.cast(self.weight, x.dtype), self.stride, padding)


class BatchNorm(tf.Module):
    def __init__(self, channels, gamma=1.0):
        super().__init__()
        self.gamma = tf.Variable(tf.fill([channels], gamma), name="gamma")
        self.beta = tf.Variable(tf.zeros([channels]), name="beta")
        self.mean = tf.Variable(tf.zeros([channels]), trainable=False, name="mean")
        self.variance = tf.Variable(tf.ones([channels]), trainable=False, name="variance")

    def __call__(self, x):
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x,
            self.gamma,
            self.beta,
            self.mean,
            self.variance,
            epsilon=facts.BATCH_NORM_EPSILON,
            exponential_avg_factor=1 - facts.BATCH_NORM_MOMENTUM,
        )
        self.mean.assign(mean)
        self.variance.assign(variance)
        return y


class Bottleneck(tf.Module):
    def __init__(self, inputs, width, stride, project):
        super().__init__()
        outputs = width * facts.EXPANSION
        self.conv1, self.bn1 = Conv(inputs, width, 1), BatchNorm(width)
        self.conv2, self.bn2 = Conv(width, width, 3, stride), BatchNorm(width)
        self.conv3, self.bn3 = Conv(width, outputs, 1), BatchNorm(outputs, gamma=0.0)
        self.shortcut = None
        if project:
            self.shortcut = Conv(inputs, outputs, 1, stride), BatchNorm(outputs)

    def __call__(self, x):
        shortcut = x
        if self.shortcut is not None:
            conv, batch_norm = self.shortcut
            shortcut = batch_norm(conv(x))
        y = tf.nn.relu(self.bn1(self.conv1(x)))
        y = tf.nn.relu(self.bn2(self.conv2(y)))
        return tf.nn.relu(self.bn3(self.conv3(y)) + shortcut)


class ResNet50(tf.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = Conv(3, 64, 7, 2), BatchNorm(64)
        self.blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                self.blocks.append(Bottleneck(channels, width, stride if first else 1, first))
                channels = width * facts.EXPANSION
        self.weight = tf.Variable(
            tf.random.normal([channels, facts.CLASSES], 0, 0.01), name="weight"
        )
        self.bias = tf.Variable(tf.zeros([facts.CLASSES]), name="bias")

    def __call__(self, x):
        x = tf.nn.relu(self.bn1(self.conv1(x)))
        x = tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")
        for block in self.blocks:
            x = block(x)
        x = tf.reduce_mean(x, [1, 2])
        return tf.matmul(x, tf.cast(self.weight, x.dtype)) + tf.cast(self.bias, x.dtype)


class SGD(tf.Module):
    """v = momentum v + g + decay w; w -= rate v: PyTorch's form, by TensorFlow's fused operator."""

    def __init__(self, variables, learning_rate):
        super().__init__()
        self.variables_, self.learning_rate = variables, learning_rate
        self.velocities = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, gradients):
        for variable, velocity, gradient in zip(self.variables_, self.velocities, gradients):
            if variable.shape.rank > 1:  # convolutions, the dense weight
                gradient += facts.WEIGHT_DECAY * variable
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=velocity.handle,
                lr=self.learning_rate,
                grad=gradient,
                momentum=facts.MOMENTUM,
            )


class LossScale(tf.Module):
    """Dynamic: halved where gradients overflow (that step is left out), doubled after 2000 good."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(2.0**15, trainable=False)
        self.good_steps = tf.Variable(0, trainable=False)

    def apply(self, sgd, gradients):
        gradients = [gradient / self.scale for gradient in gradients]
        finite = tf.math.is_finite(tf.linalg.global_norm(gradients))
        tf.cond(finite, lambda: sgd.apply(gradients), lambda: None)
        good = tf.where(finite, self.good_steps + 1, 0)
        grown = tf.where(good == 2000, self.scale * 2, self.scale)
        self.scale.assign(tf.where(finite, grown, self.scale / 2))
        self.good_steps.assign(tf.where(good == 2000, 0, good))


def model(run):
    return ResNet50()


def loss(run):
    smoothing = facts.LABEL_SMOOTHING

    def criterion(logits, labels):
        off = smoothing / facts.CLASSES
        target = tf.one_hot(labels, facts.CLASSES, 1 - smoothing + off, off)
        each = tf.nn.softmax_cross_entropy_with_logits(target, tf.cast(logits, tf.float32))
        return tf.reduce_mean(each)

    return criterion


def optimizer(run, network):
    return SGD(network.trainable_variables, facts.learning_rate(run.global_batch_size))


def training(run):
    network, criterion = model(run), loss(run)
    variables = network.trainable_variables
    sgd = optimizer(run, network)
    scaler = LossScale() if run.amp and run.cuda else None
    dtype = compute_dtype(run)
    xla = run.compiler == "xla"

    def differentiate(images, labels):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = criterion(network(tf.cast(images, dtype)), labels)
            scaled = value * scaler.scale if scaler else value
        return value, tape.gradient(scaled, variables)

    def update(gradients):
        if scaler:
            scaler.apply(sgd, gradients)
        else:
            sgd.apply(gradients)

    def replica_step(images, labels):
        value, gradients = differentiate(images, labels)
        if run.distributed:
            mean = tf.distribute.ReduceOp.MEAN
            gradients = tf.distribute.get_replica_context().all_reduce(mean, gradients)
        update(gradients)
        return value

    if run.distributed:
        # XLA cannot compile collectives between processes: it gets what lies before and after.
        if xla:
            differentiate = tf.function(differentiate, jit_compile=True)
            update = tf.function(update, jit_compile=True)

        def whole_step(images, labels):
            value = framework.strategy().run(replica_step, (images, labels))
            return framework.strategy().experimental_local_results(value)[0]

    else:
        whole_step = replica_step

    size = run.dimensions["image_size"]
    signature = [
        tf.TensorSpec([run.batch_size, size, size, 3], tf.float32),
        tf.TensorSpec([run.batch_size], tf.int32),
    ]
    function = tf.function(
        whole_step, signature, jit_compile=True if xla and not run.distributed else None
    ).get_concrete_function()
    batches = run.batches("NHWC")
    next_batch = feed(batches, lambda images, labels: (tf.constant(images), tf.constant(labels)))

    return Work(
        step=lambda: function(*next_batch()),
        wait=lambda: framework.wait(run),
        loss=float,
        parameters=sum(v.shape.num_elements() for v in variables),
        batches=batches,
        parity={
            "layout": "NHWC",
            "optimizer": "SGD, fused (ResourceApplyMomentum)",
            "loss_scaling": "dynamic" if scaler else "none",
            "compute_dtype": dtype.name,
        },
    )


def compute_dtype(run):
    if not run.amp:
        return tf.float32
    return tf.float16 if run.cuda else tf.bfloat16
