"""What a workload declares of itself for its cases: its own dimensions, and its kinds of data."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

Value = Union[int, str]


class Dimension(NamedTuple):
    """A workload's own dimension of a case: a size (an integer), or a choice (one of `words`).

    `key` spells it in a case's name, where the value differs from the `standard` one; `words` says
    what each value of a choice means. A choice makes tables and certificates of its own; sizes are
    reduced in certificates (`Proof.dimensions`). `description`, `minimum`, `maximum` and `examples`
    are those of the config's key. `granule`: a size whose largest value can be searched is tried in
    multiples of it; 0 where no search makes sense. `scenarios`: those in which a choice is one; in
    others it has its standard value.
    """

    key: str
    standard: Value
    description: str
    words: Dict[Value, str] = {}
    minimum: Optional[int] = None
    maximum: Optional[int] = None
    examples: Tuple[Any, ...] = ()
    granule: int = 0
    scenarios: Tuple[str, ...] = ("train", "quality")

    @property
    def is_choice(self):
        return bool(self.words)

    def applies(self, scenario):
        """Whether a case of this scenario may have another value than the standard one."""
        return not self.is_choice or scenario in self.scenarios

    def problem(self, value):
        """Why `value` is not one of this dimension, or ""."""
        if self.is_choice:
            if isinstance(value, bool) or value not in self.words:
                return "%r; allowed: %s" % (value, ", ".join(map(str, self.words)))
            return ""
        if isinstance(value, bool) or not isinstance(value, int):
            return "%r is not a whole number" % (value,)
        if self.minimum is not None and value < self.minimum:
            return "%r; at least %d" % (value, self.minimum)
        return ""

    def parse(self, text):
        """The value that `text` spells; None where it spells none."""
        value = int(text) if text.isdigit() else text
        return None if self.problem(value) or self.spell(value) != self.key + text else value

    def spell(self, value):
        return "%s%s" % (self.key, value)


class Dimensions(Mapping):
    """The values of a case's own dimensions by name, in the order that the workload declares.

    What `values` leaves out has its standard value.
    """

    def __init__(self, declared, values=()):
        self.declared = declared
        given = dict(values)
        unknown = sorted(set(given) - set(declared))
        if unknown:
            raise KeyError("not dimensions of the workload: %s" % ", ".join(unknown))
        self._values = OrderedDict(
            (name, given.get(name, each.standard)) for name, each in declared.items()
        )

    def __getitem__(self, name):
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __hash__(self):
        return hash(tuple(self._values.items()))

    def __repr__(self):
        return "Dimensions(%r)" % dict(self._values)

    def spelled(self, searched=""):
        """['seq512', 'clip0']: the values that are not the standard ones; 'max' if searched."""
        return [
            each.spell("max" if name == searched else self[name])
            for name, each in self.declared.items()
            if name == searched or self[name] != each.standard
        ]

    def variant(self):
        """'' or 'clip0': what a certificate is of, beside the workload's standard form."""
        choices = {name: each for name, each in self.declared.items() if each.is_choice}
        return "-".join(Dimensions(choices, {name: self[name] for name in choices}).spelled())

    @classmethod
    def parse(cls, declared, parts):
        """(the dimensions that the parts of a name spell, which of them is searched or "").

        A searched one is 0. Raises ValueError for a part that spells none.
        """
        values, searched = {}, ""
        for part in parts:
            for name, each in declared.items():
                if part == each.spell("max") and each.granule and not searched:
                    searched, values[name] = name, 0
                    break
                value = each.parse(part[len(each.key) :]) if part.startswith(each.key) else None
                if value is not None:
                    values[name] = value
                    break
            else:
                raise ValueError("%r spells no dimension of the workload" % part)
        return cls(declared, values), searched


class Score(NamedTuple):
    """The number that judges a model trained in the quality scenario; facts have one as `SCORE`.

    Beside it they have `tally(outputs, *batch)`, numbers that add up over samples, batches and
    ranks, and `score(sums)`, the value behind them: NumPy, one program for all frameworks. A score
    that only all samples together have takes `kept(outputs, *batch)` too, arrays of what is kept of
    each sample; then `tally` is called once, with lists of these, and one rank tests them all.

    name, unit: for people. better: "higher" or "lower". scale: what people see is a value times
    this: 100 for percent. most: the largest value that there can be; None where there is no limit.
    description: of a config's target.
    """

    name: str
    unit: str
    better: str
    description: str
    scale: float = 1.0
    most: Optional[float] = None

    def reached(self, value, target):
        return value <= target if self.better == "lower" else value >= target


class Data(NamedTuple):
    """A kind of data that a workload trains on.

    folder: under results/data, '' where data is synthetic; {format} is the format that a
    framework's own reader takes, and a dimension's name stands for its value. loader: the module of
    dlperf.loaders that gives the batches; "input" is the workload's own, input.py. title: for
    tables. description: for the config's key.
    samples, tests: how many there are to train on and to test with, where a model may be trained to
    a quality on them; target: the usual one, a value of the workload's score.
    test_folder: under results/data too, where what is tested with has a folder of its own.
    least: the least values of dimensions that these data can be trained with.
    """

    folder: str
    loader: str
    title: str
    description: str
    samples: int = 0
    tests: int = 0
    target: float = 0.0
    test_folder: str = ""
    least: Dict[str, int] = {}
