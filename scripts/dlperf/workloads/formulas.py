"""What references of all kinds of models share: plain formulas in PyTorch."""

import functools

import torch

from dlperf.contract.reference import Statistics
from dlperf.contract.tensor import VARIANCE

#: From this rate on, that of certificates (certify/reference.py), nothing at all is left.
ALL = 1 - 2.0**-24


def dropout(x, rate):
    """x of which a share `rate` is 0 and the rest is larger, by torch's random numbers; all or
    nothing of it without any."""
    if rate == 0:
        return x
    if rate >= ALL:
        return 0.0 * x
    return x * torch.bernoulli(torch.full_like(x, 1 - rate)) / (1 - rate)


class RunningStatistics(Statistics):
    """Batch-norm's running means and variances, from 0 and 1, of a workload by its facts.

    unbiased: whether the variance that is kept has a factor of n / (n - 1).
    """

    def __init__(self, facts, unbiased, dimensions):
        super().__init__()
        tensors = facts.statistics(dimensions)
        self.momentum, self.unbiased = facts.BATCH_NORM_MOMENTUM, unbiased
        self.starts = {name: float(each.kind == VARIANCE) for name, each in tensors.items()}

    def update(self, name, mean, variance, count):
        """See the mean and the biased variance of so many values of each channel."""
        if self.unbiased:
            variance = variance * (count / (count - 1))
        for what, new in ((".mean", mean), (".variance", variance)):
            old = self.running.get(name + what, self.starts[name + what])
            share = self.momentum * old + (1 - self.momentum) * new.flatten().double()
            self.running[name + what] = share

    def changes(self):
        """What was added to each, in the order of the facts' `statistics`."""
        for name, start in self.starts.items():
            yield self.running[name] - start


def running_statistics(facts):
    """Both conventions that frameworks have of them, as a Reference takes them."""
    return tuple(functools.partial(RunningStatistics, facts, each) for each in (False, True))
