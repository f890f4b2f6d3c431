"""ResNet-50 v1.5 in TensorFlow 1.15, as a session graph.

As fast as it gets: static shapes, fused batch-norm, `make_callable` in place of `session.run`. NHWC
on the CPU (Eigen has no other kernels), NCHW for fp32 on a GPU, and NHWC there under AMP (Tensor
Cores). On the CPU, Eigen's own kernel for the gradient of a convolution's input in place of the
default one, which multiplies matrices of a few rows: a step of 8 images of 64 px takes less than
half as long on one core, one of 4 images of 224 px 7 % less. That kernel has no explicit padding:
"SAME" where that is the same, else a pad beside the operator.
"""

import numpy as np
import tensorflow as tf

from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import tensorflow1 as framework
from dlperf.workloads.resnet50 import facts


def layout(run):
    return "NCHW" if run.cuda and not run.amp else "NHWC"


def spatial(order, height, width, rest):
    """`rest` for batch and channels, `height` and `width`, in the layout's order."""
    return [rest, rest, height, width] if order == "NCHW" else [rest, height, width, rest]


def variable(name, *shape):
    """The stopwatch writes all weights."""
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer())


def conv(x, outputs, size, stride, order, name):
    inputs = int(x.shape[1 if order == "NCHW" else 3])
    kernel = variable(name + "/kernel", size, size, inputs, outputs)
    padding = "SAME"
    if size > 1 and stride > 1:  # "SAME" would pad an even image by (0, 1) in place of (1, 1)
        pad = [size // 2, size // 2]
        x, padding = tf.pad(x, spatial(order, pad, pad, [0, 0])), "VALID"
    strides = spatial(order, stride, stride, 1)
    return tf.nn.conv2d(x, kernel, strides, padding, data_format=order)


def batch_norm(x, order, name):
    channels = int(x.shape[1 if order == "NCHW" else 3])
    scale, shift = variable(name + "/gamma", channels), variable(name + "/beta", channels)
    fixed = {"shape": [channels], "trainable": False}
    mean = tf.get_variable(name + "/mean", initializer=tf.zeros_initializer(), **fixed)
    variance = tf.get_variable(name + "/variance", initializer=tf.ones_initializer(), **fixed)
    epsilon = facts.BATCH_NORM_EPSILON
    if x.dtype == tf.float64:  # the fused operator has none; a CPU's layout is NHWC
        batch_mean, batch_variance = tf.nn.moments(x, [0, 1, 2])
        y = tf.nn.batch_normalization(x, batch_mean, batch_variance, shift, scale, epsilon)
    else:
        # not tf.nn.fused_batch_norm, which raises epsilon to 1.001e-5
        y, batch_mean, batch_variance = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=shift, mean=[], variance=[], epsilon=epsilon, data_format=order
        )[:3]
    share = 1 - facts.BATCH_NORM_MOMENTUM
    for moving, new in ((mean, batch_mean), (variance, batch_variance)):
        update = tf.assign_sub(moving, share * (moving - new))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
    return y


def bottleneck(x, width, stride, project, order, name):
    outputs = width * facts.EXPANSION
    shortcut = x
    if project:
        shortcut = conv(x, outputs, 1, stride, order, name + "/conv4")
        shortcut = batch_norm(shortcut, order, name + "/bn4")
    y = tf.nn.relu(batch_norm(conv(x, width, 1, 1, order, name + "/conv1"), order, name + "/bn1"))
    y = conv(y, width, 3, stride, order, name + "/conv2")
    y = tf.nn.relu(batch_norm(y, order, name + "/bn2"))
    y = batch_norm(conv(y, outputs, 1, 1, order, name + "/conv3"), order, name + "/bn3")
    return tf.nn.relu(y + shortcut)


def model(run, images):
    """Logits of `images`; batch-norm's updates are in the graph's UPDATE_OPS."""
    order = layout(run)
    x = conv(images, 64, 7, 2, order, "conv1")
    x = tf.nn.relu(batch_norm(x, order, "bn1"))
    # zeros are as good as minus infinity under a maximum: nothing is below zero after a ReLU
    x = tf.pad(x, spatial(order, [1, 1], [1, 1], [0, 0]))
    window, strides = spatial(order, 3, 3, 1), spatial(order, 2, 2, 1)
    x = tf.nn.max_pool(x, window, strides, "VALID", data_format=order)
    block = 0
    for width, count, stride in facts.STAGES:
        for index in range(count):
            first = index == 0
            x = bottleneck(x, width, stride if first else 1, first, order, "block%d" % block)
            block += 1
    x = tf.reduce_mean(x, [2, 3] if order == "NCHW" else [1, 2])
    dense = variable("fc/kernel", int(x.shape[1]), facts.CLASSES)
    bias = variable("fc/bias", facts.CLASSES)
    return tf.matmul(x, dense) + bias


def weights(session):
    """The default graph's trained variables by the names of facts.parameters."""
    named = {}
    for variable in tf.trainable_variables():
        layer, kind = variable.op.name.rsplit("/", 1)
        kind = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}[kind]
        named["%s.%s" % (layer.replace("/", "."), kind)] = variable
    return framework.Weights(named, session)


def loss(run, logits, labels):
    smoothing = facts.LABEL_SMOOTHING
    target = tf.one_hot(labels, facts.CLASSES, dtype=logits.dtype)
    target = (1 - smoothing) * target + smoothing / facts.CLASSES
    # not tf.losses, which casts to float32 what a certificate has in float64
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(target, logits))


def optimizer(run):
    rate = np.float64(facts.learning_rate(run.global_batch_size))  # a float would become float32
    sgd = tf.train.MomentumOptimizer(rate, facts.MOMENTUM)
    if run.amp:
        sgd = tf.train.experimental.enable_mixed_precision_graph_rewrite(sgd)
    if run.distributed:
        import horovod.tensorflow as hvd

        sgd = hvd.DistributedOptimizer(sgd)
    return sgd


def update(run, sgd, value):
    """One step: mean gradients over ranks, weight decay on what has two dimensions, batch-norm."""
    kernels = {} if run.cuda else {"Conv2DBackpropInput": "eigen_tensor"}
    with tf.get_default_graph()._kernel_label_map(kernels):
        gradients = sgd.compute_gradients(value)
    gradients = [
        (gradient + facts.WEIGHT_DECAY * variable, variable)
        if len(variable.shape) > 1
        else (gradient, variable)
        for gradient, variable in gradients
    ]
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return sgd.apply_gradients(gradients)


def training(run):
    with framework.graph(run):
        return built(run)


def built(run):
    """Build the graph of a step in the default graph, and a session that runs it."""
    batches = open_batches(run, layout(run))
    images, labels = batches.tensors if batches.on_device else inputs(run, batches.constant)
    value = loss(run, model(run, images), labels)
    train = update(run, optimizer(run), value)
    session = tf.Session(config=framework.session_config(run))
    framework.initialize(session, first(batches, images, labels))
    if batches.constant:
        step = session.make_callable([value, train])
    elif batches.on_device:
        batches.connect(session)
        if run.cuda:
            batches.next()  # for graph_facts, which runs the forward pass
        call = session.make_callable([value, train])

        def step():
            batches.next()  # into the graph, which takes it from there
            return call()

    else:
        call = session.make_callable([value, train], feed_list=[images, labels])
        next_batch = feed(batches, lambda *batch: batch)

        def step():
            return call(*next_batch())

    return Work(
        step=step,
        wait=lambda: None,  # a callable returns when the step, its update included, is done
        loss=lambda fetched: float(fetched[0]),
        parameters=sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables()),
        batches=batches,
        parity=dict(
            framework.graph_facts(run, session, value, [images, labels]),
            layout=layout(run),
            optimizer="MomentumOptimizer",
            loss_scaling="dynamic" if run.amp else "none",
        ),
        weights=weights(session),
    )


def inputs(run, constant):
    """Where images and labels come from: variables on the device, or placeholders to feed."""
    size, channel_first = run.dimensions["image_size"], layout(run) == "NCHW"
    dtype = framework.dtype(run)
    image = [3, size, size] if channel_first else [size, size, 3]
    shapes = [run.batch_size] + image, [run.batch_size]
    if not constant:
        return tf.placeholder(dtype, shapes[0]), tf.placeholder(tf.int32, shapes[1])
    # fed once, when the variables are initialised: a constant would sit in the graph's definition
    images = tf.Variable(tf.placeholder(dtype, shapes[0], "images"), trainable=False)
    labels = tf.Variable(tf.placeholder(tf.int32, shapes[1], "labels"), trainable=False)
    return images, labels


def first(batches, images, labels):
    """What to feed when variables are initialised."""
    if not batches.constant:
        return {}
    x, y = batches.next()
    return {"images:0": x, "labels:0": y}
