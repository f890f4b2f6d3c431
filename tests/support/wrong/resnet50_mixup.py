"""The smallest wrong settings of ResNet-50's mixed images, in the quality scenario."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

VARIANT = {"variant": "mixup1-quality"}
pytorch = partial(Mutation, "resnet50", "pytorch", **VARIANT)
jax = partial(Mutation, "resnet50", "jax", **VARIANT)
tensorflow = partial(Mutation, "resnet50", "tensorflow", **VARIANT)
tensorflow1 = partial(Mutation, "resnet50", "tensorflow1", **VARIANT)
mxnet = partial(Mutation, "resnet50", "mxnet", **VARIANT)
paddlepaddle = partial(Mutation, "resnet50", "paddlepaddle", **VARIANT)
oneflow = partial(Mutation, "resnet50", "oneflow", **VARIANT)
mindspore = partial(Mutation, "resnet50", "mindspore", **VARIANT)

DRAWN = "coefficients(run.seed, run.replica, next(_coming), run.batch_size)"

MIXUP = [
    pytorch(
        "labels not mixed",
        Replace("mixed_loss", "(_share * _one + (1 - _share) * _other).mean()", "_one.mean()"),
        tier="float64-loss",
    ),
    jax(
        "all rolled, not reversed, of JAX",
        Replace("mixed", "_rows[::-1]", "jnp.roll(_rows, 1, 0)"),
        tier="float64-loss",
    ),
    tensorflow(
        "all rolled, not reversed, of TensorFlow",
        Replace("mixed", "tf.reverse(_rows, [0])", "tf.roll(_rows, 1, 0)"),
        tier="float64-loss",
    ),
    tensorflow1(
        "each one's own share given to the other, of TensorFlow 1",
        Replace(
            "mixed",
            "_share * _rows + (1 - _share) * tf.reverse(_rows, [0])",
            "(1 - _share) * _rows + _share * tf.reverse(_rows, [0])",
        ),
        tier="float64-loss",
    ),
    mxnet(
        "labels not reversed, of MXNet",
        Replace(
            "MixedCriterion.hybrid_forward",
            "(_labels, _f.reverse(_labels, axis=0))",
            "(_labels, _labels)",
        ),
        tier="float64-loss",
    ),
    paddlepaddle(
        "shares that stay, of PaddlePaddle",
        Replace("training", "_share.set_value(_a.astype(_dtype))", "None"),
        tier="float64-loss",
    ),
    oneflow(
        "labels not mixed, of OneFlow",
        Replace("mixed_loss", "(_share * _one + (1 - _share) * _other).mean()", "_one.mean()"),
        tier="float64-loss",
    ),
    mindspore(
        "images not mixed, of MindSpore",
        Replace(
            "mixed_by.mixed_loss",
            "_own * _images + (1 - _own) * ops.flip(_images, (0,))",
            "_images",
        ),
        tier="timed-loss",
        **TIMED,
    ),
    pytorch(
        "images rolled, not reversed",
        Replace("mixed_loss", "(1 - _own) * _images.flip(0)", "(1 - _own) * _images.roll(1, 0)"),
        tier="float64-loss",
    ),
    pytorch(
        "each image's own share given to the other",
        Replace(
            "mixed_loss",
            "_own * _images + (1 - _own) * _images.flip(0)",
            "(1 - _own) * _images + _own * _images.flip(0)",
        ),
        tier="float64-loss",
    ),
    pytorch(
        "coefficients of the next step",
        Replace(
            "each_step.mixed_step",
            DRAWN,
            "coefficients(run.seed, run.replica, next(_coming) + 1, run.batch_size)",
        ),
        tier="float64-loss",
    ),
    pytorch(
        "coefficients that begin anew with the training",
        Replace(
            "each_step.mixed_step",
            DRAWN,
            "coefficients(run.seed, run.replica, next(_coming) % 5, run.batch_size)",
        ),
        tier="float64-again-loss",
    ),
    pytorch(
        "the same coefficients on all ranks",
        Replace(
            "each_step.mixed_step",
            DRAWN,
            "coefficients(run.seed, 0, next(_coming), run.batch_size)",
        ),
        layout="dp2",
        tier="float64-loss",
    ),
    pytorch(
        "one coefficient for a whole batch",
        Replace("mixed_loss", "_share.view(-1, 1, 1, 1)", "_share[0]"),
        tier="float64-loss",
    ),
    pytorch(
        "images mixed in the evaluation",
        Replace("outputs", "_network(_images)", "_network(0.5 * (_images + _images.flip(0)))"),
        tier="float64-tested",
    ),
]
