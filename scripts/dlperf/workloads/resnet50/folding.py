"""Batch-norm folded into the convolution before it: one formula for all frameworks.

By given statistics batch-norm is a scale and a shift of each channel, y = g (x - m) / sqrt(v + e)
+ b, and so a convolution's own: w g / sqrt(v + e), and the bias b - m g / sqrt(v + e) (Jacob et al.
2018, arXiv:1712.05877, section 3.2). The same function, but no pass over activations for it.
"""

import collections.abc

from dlperf.workloads.resnet50 import facts

#: What stands in the parity sheet.
BY = {False: "left to the framework", True: "folded into the convolutions beforehand, by dlperf"}


class Folded(collections.abc.Mapping):
    """Name -> array of a folded network, from canonical weights and statistics.

    Computed in float64, and rounded once to `dtype`. One by one, when it is asked for: all of them
    at once would count in the peak memory. statistics: None as they start, 0 and 1.
    """

    def __init__(self, weights, statistics, dtype):
        self._weights, self._statistics, self._dtype = weights, statistics, dtype
        self._names = facts.built({"fold": 1})

    def __getitem__(self, name):
        import numpy as np  # not for the plan

        if name not in self._names:
            raise KeyError(name)
        layer, _, kind = name.rpartition(".")
        if layer == "fc":
            return np.asarray(self._weights[name], self._dtype)
        batch_norm = layer.replace("conv", "bn")
        mean, variance = 0.0, 1.0
        if self._statistics is not None:
            mean = self._float64(self._statistics, batch_norm + ".mean")
            variance = self._float64(self._statistics, batch_norm + ".variance")
        scale = self._float64(self._weights, batch_norm + ".weight")
        scale = scale / np.sqrt(variance + facts.BATCH_NORM_EPSILON)
        if kind == "weight":
            array = self._float64(self._weights, name) * scale[:, None, None, None]
        else:
            array = self._float64(self._weights, batch_norm + ".bias") - mean * scale
        return array.astype(self._dtype)

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    @staticmethod
    def _float64(arrays, name):
        return arrays[name].astype("float64")


class Weights:
    """Writes canonical weights and statistics, folded, into a network without batch-norm.

    network: its own weights, by the names of the facts' `built`; those are what `read` gives.
    """

    def __init__(self, network, dtype):
        self._network, self._dtype, self._given = network, dtype, None

    def read(self):
        return self._network.read()

    def write(self, arrays):
        self._given = arrays
        self.write_statistics(None)

    def write_statistics(self, arrays):
        self._network.write(Folded(self._given, arrays, self._dtype))


def beforehand(run, work):
    """The Inference, which takes canonical weights also where its network is built folded."""
    fold = bool(run.dimensions["fold"])
    work.parity["batch_norm"] = BY[fold]
    if fold:
        work.weights = Weights(work.weights, "float64" if run.float64 else "float32")
    return work
