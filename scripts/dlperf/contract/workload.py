"""What a workload says of itself, free of any framework: each facts.py ends with one Workload.

What is missing or misspelt is an error where facts.py is imported; what may be left out has a
default that says what it means.
"""

import dataclasses
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple

from dlperf.contract.dimension import Data, Dimension, Score
from dlperf.contract.published import Published
from dlperf.contract.tensor import Tensor
from dlperf.contract.traffic import Kernels

#: Canonical name -> Tensor, from a case's dimensions.
Tensors = Callable[[Mapping[str, Any]], Dict[str, Tensor]]


def nothing(*_):
    """Of a hook that a workload has no use for."""
    return ()


def no_reason(*_):
    """Of a hook that says why something cannot be: nothing stands against it."""
    return ""


@dataclasses.dataclass(frozen=True)
class Quality:
    """What judges a model that was trained in the quality scenario.

    score: the number's name, unit and direction. tally(outputs, *batch): numbers that add up over
    samples, batches and ranks; value(sums): the score behind them; NumPy, one program for all
    frameworks. kept: of a score that only all samples together have: kept(outputs, *batch) gives
    arrays of what is kept of each sample, and then `tally` is called once, with lists of these.
    judged(sums): how many samples were judged, where that is not the number that were tested.
    more: other scores of the same sums, name -> (Score, value).
    """

    score: Score
    tally: Callable[..., Any]
    value: Callable[[Any], float]
    kept: Optional[Callable[..., Any]] = None
    judged: Optional[Callable[[Any], int]] = None
    more: Mapping[str, Tuple[Score, Callable[[Any], float]]] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class Workload:
    """title, summary, unit: for people; unit is the plural of what a batch has samples of.

    dimensions: its own dimensions of a case. data: kinds of data. ways: fields of
    contract.layout.Layout that it can have other values of.
    parameters(dimensions): canonical name -> Tensor of all that is trained. initial(name, tensor,
    draw, dimensions): what training starts with: an array by `draw`, or a number. timed_initial:
    the same where no quality is trained for, so that every tensor matters in the few steps of a
    window; None: `initial`.
    learning_rate(global batch size): of training whose rate is constant. schedule(run): a rate for
    each step of the quality scenario, () of any other. base(case): the case that its speed-up is
    over.
    flops_per_sample(dimensions, scenario): of a forward and backward pass, or of inference alone.

    quality: what judges the quality scenario; None: there is none. statistics(dimensions):
    Tensors of batch-norm's running ones; None: the model has none. built(dimensions): Tensors of
    the network's own, where a choice folds some of `parameters` into others; None: they are these.
    pipeline_stages(dimensions, count): name of each tensor -> the stages, of so many, that have it;
    None: no framework splits it by layers. sparse(dimensions): names of tensors whose gradients are
    of rows alone. divided: the key of a dimension that ranks divide -> (the choice and the word by
    which they do). released(data_dir): the file of tensors that training starts from; None: all are
    drawn from the seed. unsupported(identity): why no framework can do a case.
    tokens_per_sample(dimensions); None: samples have no tokens. has_dropout: so losses of
    frameworks differ by chance. draws(dimensions): whether a training draws random numbers of its
    own, where some of its models do not; None: it does where the proof has `undrawn` constants.
    recomputed_flops_per_sample(dimensions): of a training step, on top
    of `flops_per_sample`, where activations are computed again; None: they never are.

    unsupported_in(framework, case): why one framework cannot do a case, by its identity and device.
    kernels(dimensions): what a training step of one sample computes and moves, for the roofline
    (contract/traffic.py); None: it is not counted. optimizer_states: values that the optimiser
    keeps for each weight. published: what publications call it -> Published.
    published_fields(row, columns): what a row of a published table is of; `columns`: dimensions
    that the table has columns of. answers: which arrays of a batch the model is to find, by their
    places; what is asked of a model has zeros there. mlperf_in_samples: MLPerf's names of
    benchmarks of it whose events count samples.
    """

    title: str
    summary: str
    unit: str
    dimensions: Mapping[str, Dimension]
    data: Mapping[str, Data]
    ways: Tuple[str, ...]
    parameters: Tensors
    initial: Callable[..., Any]
    learning_rate: Callable[[int], float]
    base: Callable[[Any], Any]
    flops_per_sample: Callable[[Mapping[str, Any], str], int]
    has_dropout: bool
    timed_initial: Optional[Callable[..., Any]] = None
    schedule: Callable[[Any], Any] = nothing
    quality: Optional[Quality] = None
    statistics: Optional[Tensors] = None
    built: Optional[Tensors] = None
    pipeline_stages: Optional[Callable[[Mapping[str, Any], int], Dict[str, Tuple[int, ...]]]] = None
    sparse: Callable[[Mapping[str, Any]], Tuple[str, ...]] = nothing
    divided: Mapping[str, Tuple[str, str]] = dataclasses.field(default_factory=dict)
    draws: Optional[Callable[[Mapping[str, Any]], bool]] = None
    released: Optional[Callable[[str], str]] = None
    unsupported: Callable[[Mapping[str, Any]], str] = no_reason
    tokens_per_sample: Optional[Callable[[Mapping[str, Any]], int]] = None
    recomputed_flops_per_sample: Optional[Callable[[Mapping[str, Any]], int]] = None
    unsupported_in: Callable[[str, Mapping[str, Any]], str] = no_reason
    kernels: Optional[Callable[[Mapping[str, Any]], Iterable[Kernels]]] = None
    optimizer_states: int = 0
    published: Mapping[str, Published] = dataclasses.field(default_factory=dict)
    published_fields: Optional[Callable[..., Mapping[str, Any]]] = None
    answers: Tuple[int, ...] = ()
    mlperf_in_samples: Tuple[str, ...] = ()
