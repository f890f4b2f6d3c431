"""What a reference and its optimiser hand over is whole and spelled right, or it is an error."""

import dataclasses
from types import SimpleNamespace

import pytest

from dlperf import workloads
from dlperf.contract.proof import UpdateRule
from dlperf.contract.reference import Reference, Statistics


class Descent(UpdateRule):
    def __init__(self, weights, dimensions):
        pass

    def update(self, weights, gradients, learning_rate):
        return {name: weights[name] - learning_rate * gradients[name] for name in weights}


class Forgetful(UpdateRule):
    """Its method has another name."""

    def step(self, weights, gradients, learning_rate):
        return weights


class Seen(Statistics):
    def changes(self):
        return iter(self.running.values())


def loss(weights, batch, dimensions):
    return 0.0


def test_what_is_missing_or_misspelt_is_an_error():
    for missing in ("tensors", "loss"):
        with pytest.raises(TypeError, match=missing):
            Reference(**{name: loss for name in ("tensors", "loss") if name != missing})
    for misspelt in ("tested", "FastOptimizer", "output", "statistic"):
        with pytest.raises(TypeError, match=misspelt):
            Reference(tensors=loss, loss=loss, **{misspelt: loss})
    with pytest.raises(dataclasses.FrozenInstanceError):
        Reference(tensors=loss, loss=loss).loss = None


def test_an_optimiser_is_an_update_rule_that_has_its_update():
    own = workloads.proof("resnet50")
    assert dataclasses.replace(own, optimizer=Descent).optimizer({}, {}).norms is None
    with pytest.raises(TypeError, match="optimizer: .* is no UpdateRule"):
        dataclasses.replace(own, optimizer=dict)
    with pytest.raises(TypeError, match="update"):
        Forgetful()
    assert Reference(tensors=loss, loss=loss, fast_optimizer=Descent).fast_optimizer is Descent
    with pytest.raises(TypeError, match="fast_optimizer: .* is no UpdateRule"):
        Reference(tensors=loss, loss=loss, fast_optimizer=dict)


def test_statistics_begin_with_nothing_and_must_say_their_changes():
    assert Seen().running == {} and list(Seen().changes()) == []
    with pytest.raises(TypeError, match="changes"):
        Statistics()


@pytest.mark.parametrize(("workload", "given"), [("resnet50", ()), ("bert", (Seen,))])
def test_a_reference_and_the_facts_agree_on_running_statistics(monkeypatch, workload, given):
    own = SimpleNamespace(REFERENCE=Reference(tensors=loss, loss=loss, statistics=given))
    facts = workloads.facts(workload)
    modules = {f"dlperf.workloads.{workload}.reference": own}
    monkeypatch.setattr(workloads.importlib, "import_module", lambda name: modules.get(name, facts))
    with pytest.raises(ValueError, match=f"{workload}: `statistics`"):
        workloads.reference(workload)
