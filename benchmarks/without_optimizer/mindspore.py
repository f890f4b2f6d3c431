"""A page's training step without the update of its weights: gradients are made, and left."""

from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from dlperf import workloads


class Nothing(nn.Cell):
    """Does all that an optimizer does but the update, and the clip that belongs to it.

    It takes a number of each gradient, as a graph makes nothing that nobody takes.
    """

    def __init__(self, parameters):
        super().__init__()
        self.parameters = ParameterTuple(parameters)
        self.taken = Parameter(Tensor([0.0]), name="taken")
        self.map = ops.HyperMap()

    def construct(self, gradients):
        return ops.assign(self.taken, ops.addn(self.map(first, gradients)))


def first(gradient):
    return ops.slice(gradient.reshape(-1), (0,), (1,))


def training(run):
    page = workloads.load(run.workload, run.framework)
    page.optimizer = lambda run, network: Nothing(network.trainable_params())
    return page.training(run)
