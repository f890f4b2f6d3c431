"""The layers of a backbone in the order of the forward pass, made by a page's own classes."""

from dlperf.workloads.insightface import facts


def named_layers(backbone, activated, block, bottleneck):
    """Yield a backbone's layers but its output, as pairs of canonical name and layer.

    activated(inputs, outputs, size, stride=1, groups=1) makes a convolution, its norm and a PReLU
    for each channel; block(inputs, width, stride) a facts.Residual; bottleneck(inputs, inner,
    outer, stride) a facts.Bottleneck.
    """
    if backbone != "y1":
        yield "stem", activated(3, facts.RESNET_WIDTHS[0], 3)
        for each in facts.residuals(backbone):
            yield each.name, block(each.inputs, each.width, each.stride)
        return
    channels = facts.MOBILE_STEM
    yield "stem", activated(3, channels, 3, 2)
    yield "depthwise", activated(channels, channels, 3, groups=channels)
    for each in facts.bottlenecks():
        yield each.name, bottleneck(each.inputs, each.inner, each.outer, each.stride)
    yield "last", activated(each.outer, facts.MOBILE_LAST, 1)
