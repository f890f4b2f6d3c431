"""One folder a workload: what is known of it free of frameworks, and one page a framework.

facts.py (sizes, FLOPs, optimiser, kinds of data) and proof.py (neutral weights, formulas,
tolerances) import no framework, and reference.py (the model and its loss in plain float64) only
PyTorch. Each ends with what it hands over: a Workload, a Proof and a Reference, which `of`, `proof`
and `reference` give. Every page has `training(run) -> Work` (contract/work.py), built from
functions that stand in the same order everywhere: model, weights, loss, optimizer, training. One
that infers has `inference(run) -> Inference` too.
"""

import collections.abc
import contextlib
import functools
import importlib
import math
import os

from dlperf.contract.dimension import Dimensions
from dlperf.contract.ownership import divided, is_divided
from dlperf.contract.tensor import ROWS, VARIANCE
from dlperf.contract.work import table

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: The workloads: the folders that have facts.
NAMES = tuple(
    sorted(name for name in os.listdir(_FOLDER) if os.path.exists(_FOLDER + "/%s/facts.py" % name))
)


def of(workload):
    """The contract.workload.Workload of `workload`: what it says of itself."""
    return facts(workload).WORKLOAD


def facts(workload):
    """The module of its facts: constants, which certificates change, and functions of them."""
    return importlib.import_module("dlperf.workloads.%s.facts" % workload)


@contextlib.contextmanager
def settings(workload, changes):
    """Its facts with constants changed, for what is built in this block."""
    own = facts(workload)
    kept = {name: getattr(own, name) for name in changes}
    vars(own).update(changes)
    try:
        yield
    finally:
        vars(own).update(kept)


def proof(workload):
    """The contract.proof.Proof of `workload`: what its certificates prove."""
    return importlib.import_module("dlperf.workloads.%s.proof" % workload).PROOF


def spot(workload):
    """{precision: contract.spot.Spot} that spot runs of `workload` are held to."""
    return importlib.import_module("dlperf.workloads.%s.spot" % workload).SPOT


def dropout_rates(workload, dimensions):
    """{place of dropout: its rate}, as the facts have them now: certificates change them."""
    own = facts(workload)
    return {place: getattr(own, place) for place in proof(workload).places(dimensions)}


def draws(case):
    """Whether a training of this case draws random numbers of its own, such as dropout's."""
    own = of(case.workload).draws
    return own(case.dimensions) if own else bool(proof(case.workload).undrawn)


def reference(workload):
    """The contract.reference.Reference of `workload`: its plain formulas; it imports PyTorch.

    Raises ValueError where it and the facts differ in whether the model has running statistics.
    """
    found = importlib.import_module("dlperf.workloads.%s.reference" % workload).REFERENCE
    if bool(found.statistics) != bool(of(workload).statistics):
        raise ValueError("%s: `statistics` of its facts, or of its reference alone" % workload)
    return found


def dimensions(workload):
    """Name -> Dimension of the workload's own. Raises KeyError where there is no such workload."""
    if workload not in NAMES:
        raise KeyError("%s is no workload; there are: %s" % (workload, ", ".join(NAMES)))
    return of(workload).dimensions


def data(workload):
    """Kind of data -> Data of the workload."""
    return of(workload).data


def scenario_of(variant):
    """The scenario that a certificate's variant is of: 'fold1-infer' -> 'infer'."""
    last = variant.split("-")[-1]
    return last if last in ("infer", "quality") else "train"


def unsupported(identity):
    """Why no framework can do a case, by its identity, or ""."""
    return of(identity["workload"]).unsupported(identity)


def unsupported_in(framework, case):
    """Why `framework` cannot do a case of its workload, by its identity and device, or ""."""
    return of(case["workload"]).unsupported_in(framework, case)


def certified(workload, variant=""):
    """The dimensions of a certificate: reduced sizes, and the choices that `variant` spells."""
    declared = dimensions(workload)
    words = [word for word in variant.split("-") if word not in ("", scenario_of(variant))]
    choices, _ = Dimensions.parse(declared, words)
    return Dimensions(declared, dict(choices, **proof(workload).dimensions))


def variants():
    """What certificates are of, beside standard choices: ['clip0', 'fold1-infer', …]."""
    return sorted(
        each.spell(word) + ("" if each.applies("train") else "-infer")
        for workload in NAMES
        for each in dimensions(workload).values()
        for word in each.words
        if word != each.standard
    )


def built(workload, dimensions):
    """Canonical name -> Tensor of those that an implementation's network has.

    They are the facts' `parameters`, but where a choice folds some of them into others: `built`.
    """
    own = of(workload)
    return (own.built or own.parameters)(dimensions)


def kinds(run):
    """Canonical name -> kind of the tensors that a run's network has (contract/tensor.py)."""
    return {name: each.kind for name, each in built(run.workload, run.dimensions).items()}


def running_at_start(run):
    """Canonical name -> array of batch-norm's running statistics before the first step."""
    import numpy as np  # not for the plan

    own = of(run.workload)
    return {
        name: np.full(each.shape, float(each.kind == VARIANCE), "float32")
        for name, each in (own.statistics(run.dimensions) if own.statistics else {}).items()
    }


def stages(workload, dimensions, count):
    """Canonical name of each trained tensor -> the pipeline stages, of `count`, that have it."""
    own = of(workload)
    if count == 1:
        return {name: (0,) for name in own.parameters(dimensions)}
    return own.pipeline_stages(dimensions, count)


def parts_of(run):
    """The Parts of the trained tensors that a rank has, by the run's layout and the facts.

    They are those of the model before ZeRO shards it over replicas.
    """
    tensors = of(run.workload).parameters(run.dimensions)
    grid = run.layout.mesh(run.ranks)  # not of devices: a rank may have several
    there, place = stages(run.workload, run.dimensions, grid.pipeline), grid.coordinates(run.rank)
    return [
        divided(name, tensor, getattr(place, tensor.over), getattr(grid, tensor.over))
        for name, tensor in tensors.items()
        if place.pipeline in there[name]
    ]


def is_split(workload, dimensions, grid):
    """Whether one rank of this Mesh has not the whole model, before ZeRO shards it."""
    tensors = of(workload).parameters(dimensions).values()
    return grid.is_split or any(is_divided(grid, each) for each in tensors)


def drawn_by_rows(run):
    """The names of tensors of which a rank has a part alone, between steps."""
    if run.layout.zero_stage >= 2:
        return [each.name for each in parts_of(run)]
    return [each.name for each in parts_of(run) if not each.is_whole]


def parameter_count_of_rank(run):
    """The number of values that a rank has of a model that is split, before ZeRO shards them."""
    tensors, count = of(run.workload).parameters(run.dimensions), 0
    for part in parts_of(run):
        size = 1
        for side in part.shape(tensors[part.name].shape):
            size *= side
        count += size
    return count


def parameter_count(workload, dimensions):
    """The number of values that a network has, all of which are trained where it is."""
    return sum(each.size for each in built(workload, dimensions).values())


class Initial(collections.abc.Mapping):
    """What every framework's training starts with: canonical name -> float32 array, from a seed.

    A tensor is drawn when it is asked for: all of them at once would count in the peak memory. A
    large table is a Table, whose rows are drawn as they are asked for, and so are the matrices that
    `by_rows` names, of which a rank has a part alone: the same numbers, of which no more than a
    block is there at a time. Where the facts have `released`, tensors of that file in `data_dir`
    are taken from it. timed: whether a window starts with it that trains for no quality.
    """

    def __init__(self, workload, dimensions, seed, data_dir="", by_rows=(), timed=False):
        self._own, self._dimensions, self._seed = of(workload), dimensions, seed
        self._initial = self._own.timed_initial if timed else None
        self._initial = self._initial or self._own.initial
        self._by_rows = frozenset(by_rows)
        self._tensors = self._own.parameters(dimensions)
        path = self._own.released(data_dir) if self._own.released else ""
        self._released = path if data_dir and os.path.exists(path) else ""

    def __getitem__(self, name):
        import numpy as np  # not for the plan

        if self._released:
            with np.load(self._released) as arrays:
                if name in arrays.files:
                    return arrays[name]
        random = np.random.default_rng([self._seed, list(self._tensors).index(name)])
        tensor, draw = self._tensors[name], Draw(random)
        if tensor.is_large:
            draw = DrawByRows(random, ROWS)
        elif tensor.is_matrix and name in self._by_rows:
            draw = DrawByRows(random, BLOCK // math.gcd(BLOCK, tensor.size // tensor.shape[0]))
        value = self._initial(name, tensor, draw, self._dimensions)
        return np.full(tensor.shape, value, "float32") if isinstance(value, (int, float)) else value

    def __contains__(self, name):
        return name in self._tensors

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)


#: Numbers that are drawn at a time: a core's cache holds as many.
BLOCK = 1 << 15


class Draw:
    """Draws float32 arrays by a NumPy Generator, the same ones with every NumPy.

    Each number is one of 65,536, half of them the others' negatives. To draw each anew takes three
    times as long: a second of every repetition that starts with 110 million. An array is filled
    part by part: that of a large table is in memory once.
    """

    def __init__(self, random):
        self._random = random

    def normal(self, shape, deviation):
        """Normal numbers, of those that are drawn first."""
        # in float64: rounded to float32, the last digits in which NumPy's versions differ are gone
        return self._of(deviation * self._random.standard_normal(BLOCK), shape)

    def uniform(self, shape, limit):
        """Numbers between -limit and limit, evenly spaced ones."""
        import numpy as np  # not for the plan

        return self._of(limit * (np.arange(BLOCK) + 0.5) / BLOCK, shape)

    def _of(self, half, shape):
        """An array of these numbers and their negatives."""
        import numpy as np

        return self._drawn(np.concatenate([half, -half]).astype("float32"), shape)

    def _drawn(self, numbers, shape):
        import numpy as np

        array = np.empty(shape, "float32")
        flat = array.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            part = flat[start : start + BLOCK]
            numbers.take(
                self._random.integers(0, 1 << 16, part.size, "uint16"), out=part, mode="wrap"
            )
        return array


class DrawByRows(Draw):
    """Draws the same numbers, of a Table, `rows` at a time, which have a whole number of blocks."""

    def __init__(self, random, rows):
        super().__init__(random)
        self._rows = rows

    def _drawn(self, numbers, shape):
        draw = super()._drawn
        return table(
            shape, lambda first, last: draw(numbers, (last - first, *shape[1:])), self._rows
        )


#: Scenario -> the function that a page has for it.
ENTRIES = {"train": "training", "infer": "inference", "quality": "training"}


def asked(workload, batch, apart=False):
    """A batch as a model is asked it: with zeros in place of the answers.

    apart: all arrays are copies, so that nothing of the batch can be reached from them.
    """
    import numpy as np  # not for the plan

    answers = of(workload).answers
    arrays = [
        np.zeros_like(each) if place in answers else np.array(each) if apart else each
        for place, each in enumerate(batch)
    ]
    return tuple(arrays) if type(batch) is tuple else type(batch)(*arrays)


@functools.lru_cache(maxsize=None)
def implements(workload, framework, scenario="train"):
    """Whether `framework` has an implementation of `workload` for a scenario.

    The page is read and not imported: its framework need not be here. The quality scenario is
    there where the page's has a schedule.
    """
    path = os.path.join(_FOLDER, workload, framework + ".py")
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as stream:
        page = stream.read()
    entry = "\ndef %s(" % ENTRIES[scenario] in page
    return entry and (scenario != "quality" or "facts.schedule(run)" in page)


def load(workload, framework):
    """Return the implementation of `workload` in `framework`."""
    return importlib.import_module("dlperf.workloads.%s.%s" % (workload, framework))
