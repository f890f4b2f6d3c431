"""Convolutions as XLA is fastest at them, for `flax.linen.Conv(conv_general_dilated=convolution)`.

On a CPU, 1x1 convolutions are matrix products and depthwise ones a sum over the kernel's places, as
XLA's own depthwise ones take up to ten times as long there. A kernel over all of the image is a sum
everywhere.
"""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def matmul(x, kernel):
    """(rows, inputs) times (inputs, outputs), with the gradient of the kernel spelled out."""
    return x @ kernel


def matmul_backward(saved, gradient):
    # JAX itself derives the transpose of this product, which costs the CPU a copy
    x, kernel = saved
    return gradient @ kernel.T, jax.lax.dot_general(x, gradient, (((0,), (0,)), ((), ())))


matmul.defvjp(lambda x, kernel: (x @ kernel, (x, kernel)), matmul_backward)


def convolution(x, kernel, strides, padding, feature_group_count=1, **settings):
    """x NHWC, kernel HWIO; feature_group_count: 1, or all channels each by itself."""
    size, _, inputs, outputs = kernel.shape
    is_depthwise, stride = feature_group_count == outputs > 1, strides[0]
    if is_depthwise and x.shape[1:3] == kernel.shape[:2] and not any(map(any, padding)):
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return jnp.sum(x * kernel[:, :, 0], (1, 2), wide, keepdims=True).astype(x.dtype)
    if jax.default_backend() == "cpu" and is_depthwise:
        return depthwise(x, kernel[:, :, 0], stride, padding)
    if jax.default_backend() == "cpu" and size == 1:
        x = x[:, ::stride, ::stride]
        return matmul(x.reshape(-1, inputs), kernel[0, 0]).reshape(*x.shape[:3], outputs)
    return jax.lax.conv_general_dilated(
        x, kernel, strides, padding, feature_group_count=feature_group_count, **settings
    )


def depthwise(x, kernel, stride, padding):
    """Each channel by itself; kernel (height, width, channels). Sums are in float32 or more."""
    size, wide = len(kernel), jnp.promote_types(x.dtype, jnp.float32)
    x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    height, width = ((length - size) // stride + 1 for length in x.shape[1:3])
    total = 0
    for i in range(size):
        for j in range(size):
            rows = slice(i, i + stride * (height - 1) + 1, stride)
            columns = slice(j, j + stride * (width - 1) + 1, stride)
            total += x[:, rows, columns].astype(wide) * kernel[i, j].astype(wide)
    return total.astype(x.dtype)
