"""Batch-norm folded into convolutions: the same function by other tensors, alike for everybody."""

from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import workloads
from dlperf.certify.reference import neutral, neutral_statistics
from dlperf.workloads.resnet50 import facts, folding

LAYER = "block0.conv2"
BATCH_NORM = "block0.bn2"


@pytest.fixture(scope="module")
def given():
    """Canonical weights, and running statistics that make settings visible."""
    return neutral("resnet50", {}), neutral_statistics("resnet50", {})


class Network:
    """Weights of a network without batch-norm, as a framework's page has them."""

    def __init__(self):
        self.arrays = dict.fromkeys(facts.built({"fold": 1}))

    def write(self, arrays):
        self.arrays = {name: arrays[name] for name in self.arrays}

    def read(self):
        return iter(self.arrays.items())


def infers(precision="fp32", fold=1):
    work = SimpleNamespace(parity={}, weights=Network())
    run = SimpleNamespace(dimensions={"fold": fold}, float64=precision == "fp64")
    return folding.beforehand(run, work)


def centre(weights, pixels):
    """What the 3x3 convolution gives for one place: (outputs,) of (inputs, 3, 3)."""
    return np.tensordot(weights[LAYER + ".weight"].astype(float), pixels, 3)


def test_a_folded_convolution_is_the_convolution_and_its_batch_norm(given):
    weights, statistics = given
    pixels = np.random.default_rng(1).normal(size=(64, 3, 3))
    mean, variance, scale, shift = (
        (weights if each in (".weight", ".bias") else statistics)[BATCH_NORM + each].astype(float)
        for each in (".mean", ".variance", ".weight", ".bias")
    )
    normalised = (centre(weights, pixels) - mean) / (variance + facts.BATCH_NORM_EPSILON) ** 0.5
    work = infers("fp64")
    work.weights.write(weights)
    work.weights.write_statistics(statistics)
    found = dict(work.weights.read())
    folded = centre(found, pixels) + found[LAYER + ".bias"]
    assert folded == pytest.approx(scale * normalised + shift, rel=1e-12)


def test_without_statistics_they_are_as_they_start(given):
    weights, statistics = given
    work, other = infers(), infers()
    work.weights.write(weights)
    other.weights.write(weights)
    other.weights.write_statistics(
        {name: np.full_like(each, name.endswith("variance")) for name, each in statistics.items()}
    )
    read = dict(other.weights.read())
    for name, each in work.weights.read():
        assert np.array_equal(each, read[name])
    assert np.array_equal(read[LAYER + ".bias"], weights[BATCH_NORM + ".bias"])


def test_folded_weights_are_rounded_once(given):
    exact, rounded = infers("fp64"), infers("fp32")
    for work in (exact, rounded):
        work.weights.write(given[0])
        work.weights.write_statistics(given[1])
    found = dict(exact.weights.read())
    assert {each.dtype for each in found.values()} == {np.dtype("float64")}
    for name, each in rounded.weights.read():
        assert each.dtype == np.float32
        assert np.array_equal(each, found[name].astype("float32"))


def test_a_folded_network_has_a_bias_for_each_batch_norm_and_no_other_tensor():
    unfolded, folded = facts.parameters({}), facts.built({"fold": 1})
    assert facts.built({"fold": 0}) == unfolded
    assert not [name for name in folded if "bn" in name]
    biases = [name for name in folded if "conv" in name and name.endswith("bias")]
    assert len(biases) == 53
    assert len(folded) == len(unfolded) - 53
    assert list(folded)[:2] == ["conv1.weight", "conv1.bias"]
    # of each channel a scale and a shift are gone, and a bias is there
    channels = sum(folded[name].shape[0] for name in biases)
    difference = workloads.parameter_count("resnet50", {"fold": 0}) - workloads.parameter_count(
        "resnet50", {"fold": 1}
    )
    assert difference == channels == 26560


def test_the_parity_sheet_says_who_folds():
    network = infers(fold=0)
    assert isinstance(network.weights, Network), "canonical arrays go to the network as they are"
    assert network.parity == {"batch_norm": "left to the framework"}
    assert "by dlperf" in infers().parity["batch_norm"]
