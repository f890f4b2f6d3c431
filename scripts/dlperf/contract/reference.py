"""What a workload computes by plain formulas: each reference.py ends with one Reference.

What is missing or misspelt is an error where reference.py is imported; what may be left out has a
default that says what it means. A case's dimensions are the last argument of all its functions.
"""

import abc
import dataclasses
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Type

from dlperf.contract.proof import UpdateRule


class Statistics(abc.ABC):
    """Batch-norm's running statistics by one convention of what is kept, as training goes on.

    running: {canonical name: tensor}, what is kept so far; the names are those of the facts'
    `statistics(dimensions)`.
    """

    def __init__(self):
        self.running: Dict[str, Any] = {}

    @abc.abstractmethod
    def changes(self) -> Iterator[Any]:
        """What was added to each one since the start, in the order of the facts' `statistics`."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """tensors(*batch, dtype): a NumPy batch, as the loader gives it, as tensors; what is no integer
    in this type. loss(weights, batch, dimensions): of one replica's batch, a scalar tensor;
    loss(weights, batch, seen, dimensions) of a model with batch-norm, where `seen` are the
    Statistics that have to see the batch. weights: {canonical name: tensor}.

    outputs(weights, statistics, batch, dimensions): what an inference gives by these running
    statistics, {canonical name: tensor}, {} of a model without batch-norm. None: there is no
    inference. evaluated: the same of an evaluation in the quality scenario; None: it is
    evaluated as `outputs`. statistics: what makes the Statistics(dimensions) of a model with
    batch-norm, one for each convention that frameworks have; (): the model has none.
    fast_optimizer: the proof's optimiser by faster operators, for the many float32 steps of long
    runs; it may change weights in place. None: the proof's own is fast enough.
    """

    tensors: Callable[..., Tuple[Any, ...]]
    loss: Callable[..., Any]
    outputs: Optional[Callable[..., Any]] = None
    evaluated: Optional[Callable[..., Any]] = None
    statistics: Tuple[Callable[..., Statistics], ...] = ()
    fast_optimizer: Optional[Type[UpdateRule]] = None

    def __post_init__(self):
        if self.fast_optimizer is not None and not issubclass(self.fast_optimizer, UpdateRule):
            raise TypeError("fast_optimizer: %r is no UpdateRule" % (self.fast_optimizer,))
