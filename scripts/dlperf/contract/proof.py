"""What proves a workload's equal work: each proof.py ends with one Proof.

Every tolerance is a number, or says why its tier cannot apply: what is missing or misspelt is an
error where proof.py is imported, and never a tier less.
"""

import abc
import dataclasses
from typing import Any, Callable, List, Mapping, Optional, Tuple, Type, Union


class Inapplicable(str):
    """Why a tier cannot apply."""


Tolerance = Union[float, Inapplicable]

FULL_PRECISION = Inapplicable("float32 has the most digits that are timed")
NO_BATCH_NORM = Inapplicable("the model has no batch-norm")
NO_DROPOUT = Inapplicable("the model has no dropout")
NO_INFERENCE = Inapplicable("the workload has no inference")
SHOWN_BY_ALL = Inapplicable("all tensors' gradients are held, and the last one's among them")
FROM_NEUTRAL = Inapplicable("the timed step itself starts from the neutral weights")
MEDIAN_ALONE = Inapplicable("in some tensors rounding alone grows as far as a wrong setting goes")


def applies(tolerance):
    """Whether there is a tier of this tolerance."""
    return not isinstance(tolerance, Inapplicable)


def number(tolerance):
    """The number that a tier is held to. Raises ValueError where there is a reason in its place."""
    if isinstance(tolerance, Inapplicable):
        raise ValueError("a tier is asked for that cannot apply: %s" % tolerance)
    return tolerance


def _check(tolerances):
    """Raise TypeError for a field that is neither a number nor a reason."""
    for field in dataclasses.fields(tolerances):
        value = getattr(tolerances, field.name)
        if not isinstance(value, (int, float, Inapplicable, Step)):
            name = "%s.%s" % (type(tolerances).__name__, field.name)
            raise TypeError("%s: %r is neither a number nor Inapplicable" % (name, value))


@dataclasses.dataclass(frozen=True)
class Step:
    """What one step is held to: its loss, and its gradient in the worst, the median and the last
    tensor. All relative: |found - expected| / |expected|, norms over a tensor."""

    loss: float
    gradient: Tolerance
    gradient_median: Tolerance
    gradient_last: Tolerance

    def __post_init__(self):
        _check(self)


@dataclasses.dataclass(frozen=True)
class Tolerances:
    """Of one precision that is timed.

    step: of the timed step. neutral: of the same step from the neutral weights, where the timed one
    has weights of its own. least_error: less of an error than that is another precision.
    statistics: batch-norm's, after the step. dropout: the loss where one place drops all.
    losses, update, update_worst: of several steps as they are timed: the worst loss, what they add
    to the median tensor, and to the worst one. outputs: of an inference. optimizer: alone.
    """

    step: Step
    neutral: Union[Step, Inapplicable]
    least_error: Tolerance
    statistics: Tolerance
    dropout: Tolerance
    losses: Tolerance
    update: Tolerance
    update_worst: Tolerance
    outputs: Tolerance
    optimizer: float

    def __post_init__(self):
        _check(self)

    def but(self, step=None, **changes):
        """The same with other values; step: those of its Step, by name."""
        own = dataclasses.replace(self.step, **(step or {}))
        return dataclasses.replace(self, step=own, **changes)


@dataclasses.dataclass(frozen=True)
class Float64:
    """Of steps in float64: rounding stays below 1e-9; the reference is stored in float32, which
    adds 6e-8."""

    loss: float = 1e-9
    gradient: float = 1e-6
    losses: float = 1e-7
    update: float = 1e-6
    outputs: float = 1e-9
    statistics: float = 1e-6


class UpdateRule(abc.ABC):
    """An optimiser as a formula on plain arrays, made by `rule(weights, dimensions)`.

    It takes its settings from the facts when it is made: certificates change some of them.
    norms: the norm of all gradients together before they were clipped, a step each; None of an
    optimiser that clips nothing.
    """

    norms: Optional[List[float]] = None

    @abc.abstractmethod
    def update(self, weights, gradients, learning_rate):
        """The weights after a step: {name: array}; NumPy or PyTorch."""


@dataclasses.dataclass(frozen=True)
class Proof:
    """dimensions: of certificates. batch_size, seed: of their batches. learning_rate: of their
    steps. settings: other constants of the facts that they change in every run; gradient_settings,
    gradient_learning_rate: where one step shows the gradient.

    neutral(name, tensor, random): weights that make settings visible, by a NumPy RandomState.
    optimizer: the update as a formula, an UpdateRule. given_scales: of the gradients that are given
    to the optimiser alone, one a step. tolerances: by precision, `amp` for bfloat16 and `amp_fp16`
    for float16. long_runs: variant -> mean losses
    of the reference's long runs, which the spread of a timed one is held to.

    undrawn: constants of the facts by which a training draws no random numbers of its own: what it
    would draw comes with the batch, or is nothing. Certificates change them in every run, too.
    by_chance(draw): constants by which the reference's own draws of a number differ, beside
    what it draws by torch's random numbers; None: nothing but those.

    timed(name, tensor, random): weights of its own for the timed step; None: the neutral ones.
    timed_ranks: how many take it where ranks exchange gradients; 0: as many as the layout has.
    neutral_statistics: where the model has batch-norm. dropouts: constants of the facts, each a
    place of dropout that is shown by itself; drops(dimensions): whether the model of these has
    them, where not all do. float64: of steps in float64.
    """

    dimensions: Mapping[str, Any]
    batch_size: int
    seed: int
    learning_rate: float
    settings: Mapping[str, Any]
    gradient_settings: Mapping[str, Any]
    gradient_learning_rate: float
    neutral: Callable[..., Any]
    optimizer: Type[UpdateRule]
    given_scales: Tuple[float, ...]
    tolerances: Mapping[str, Tolerances]
    long_runs: Mapping[str, Tuple[float, ...]]
    undrawn: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    by_chance: Optional[Callable[[int], Mapping[str, Any]]] = None
    timed: Optional[Callable[..., Any]] = None
    timed_ranks: int = 0
    neutral_statistics: Optional[Callable[..., Any]] = None
    dropouts: Tuple[str, ...] = ()
    drops: Optional[Callable[[Mapping[str, Any]], bool]] = None
    float64: Float64 = Float64()

    def places(self, dimensions):
        """The `dropouts` of a model of these dimensions."""
        return self.dropouts if self.drops is None or self.drops(dimensions) else ()

    @property
    def in_certificates(self):
        """All constants of the facts that certificates change in every run."""
        return {**self.undrawn, **self.settings}

    def __post_init__(self):
        if not issubclass(self.optimizer, UpdateRule):
            raise TypeError("optimizer: %r is no UpdateRule" % (self.optimizer,))
