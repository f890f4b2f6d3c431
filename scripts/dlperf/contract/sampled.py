"""What proves a workload whose timed steps draw a sample that certificates give instead.

In certificates all frameworks take the same sample, or their steps could not be compared; so the
sampler that is timed is shown by itself, by what has to be true of each of its samples.
"""

import dataclasses
from typing import Any, Callable, Iterable, Mapping, Optional

from dlperf.contract.proof import Proof


@dataclasses.dataclass(frozen=True)
class SampledProof(Proof):
    """is_sampled(dimensions): whether a case's steps draw samples. Then a page has `sampler(run)`,
    which gives a function from the labels of a global batch, a NumPy array, to what this rank
    samples of it, by the page's own sampler: canonical numbers, a NumPy array.

    sampled_labels(dimensions): the labels of the global batches that it is shown.
    sample_problems(dimensions, rank, ranks, labels, samples): what is wrong, a line each.
    """

    is_sampled: Optional[Callable[[Mapping[str, Any]], bool]] = None
    sampled_labels: Optional[Callable[[Mapping[str, Any]], Iterable[Any]]] = None
    sample_problems: Optional[Callable[..., Iterable[str]]] = None

    def __post_init__(self):
        super().__post_init__()
        for name in ("is_sampled", "sampled_labels", "sample_problems"):
            if getattr(self, name) is None:
                raise TypeError("%s is missing" % name)


def samples(proof, dimensions):
    """Whether a workload of this Proof draws samples in a case of these dimensions."""
    return isinstance(proof, SampledProof) and bool(proof.is_sampled(dimensions))
