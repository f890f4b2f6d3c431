"""What a rank says of the weights that it trained, read tensor by tensor."""

import hashlib

import numpy as np
import pytest

from dlperf.contract.ownership import Part
from dlperf.contract.work import ROWS, table
from dlperf.measure.weights import PART
from dlperf.measure.weights import trained as entry_and_parts

DICE = np.random.default_rng(1)
INITIAL = {
    "stem": DICE.normal(size=(4, 3, 3, 3)).astype("float32"),
    "scale": np.ones(4, "float32"),
    "bias": np.zeros(4, "float32"),
    "head": DICE.normal(size=(2 * PART // 100 + 1, 100)).astype("float32"),  # in three parts
}
LENGTH = np.sqrt(sum(np.square(each, dtype="float64").sum() for each in INITIAL.values()))


class Weights:
    """Those that training starts with, but for `changed`, in the order of `names`."""

    def __init__(self, names=INITIAL, **changed):
        self.names, self.changed = names, changed

    def read(self):
        return ((name, {**INITIAL, **self.changed}[name]) for name in self.names)


def trained(*given):
    """The entry alone."""
    entry, _ = entry_and_parts(*given)
    return entry


def with_last(name, value):
    """A tensor of INITIAL with another last value."""
    array = INITIAL[name].copy()
    array.flat[-1] = value
    return {name: array}


def test_what_nothing_trained_is_unchanged():
    entry = trained(3, INITIAL, Weights())
    assert (entry["rank"], entry["change"], entry["unchanged"]) == (3, 0, 2)


@pytest.mark.parametrize(("name", "unchanged"), [("head", 1), ("stem", 1), ("bias", 2)])
def test_the_change_is_how_far_all_weights_went_over_their_length(name, unchanged):
    entry = trained(0, INITIAL, Weights(**with_last(name, 5.0)))
    moved = 5.0 - float(INITIAL[name].flat[-1])
    assert entry["change"] == pytest.approx(moved / LENGTH, rel=1e-12)
    assert entry["unchanged"] == unchanged


def test_the_sha256_is_of_names_shapes_and_values_in_whatever_order_and_layout_they_come():
    lines = [
        f"{name} {each.shape} {hashlib.sha256(each.tobytes()).hexdigest()}\n"
        for name, each in INITIAL.items()
    ]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    turned = Weights(list(INITIAL)[::-1], head=np.asfortranarray(INITIAL["head"]))
    assert trained(0, INITIAL, turned)["sha256"] == expected
    nearly = with_last("head", np.nextafter(INITIAL["head"][-1, -1], np.float32(9)))
    assert trained(0, INITIAL, Weights(**nearly))["sha256"] != expected


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_parts_and_what_is_drawn_by_rows_are_compared_whatever_their_rows(count):
    part = Part("head", 0, ((3, 500),))
    head = INITIAL["head"]
    by_rows = {**INITIAL, "head": table(head.shape, lambda first, last: head[first:last], count)}

    class Rank:
        @staticmethod
        def read():
            own = with_last("head", 5.0)["head"][3:500]
            yield part, table(own.shape, lambda first, last: own[first:last], 7)

    entry, parts = entry_and_parts(1, by_rows, Rank, ["head"])
    assert (entry["change"], entry["unchanged"], parts) == (0.0, 1, [part])
    digest = hashlib.sha256(head[3:500].tobytes()).hexdigest()
    line = f"head {(497, 100)} {digest}\n"
    assert entry["sha256"] == hashlib.sha256(line.encode()).hexdigest()


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (Weights(["scale", "bias", "head"]), "tensors were not trained: stem"),
        (Weights([*INITIAL, "more"], more=np.ones(2)), "more"),
        (Weights(head=INITIAL["head"].T), "head"),
        (Weights(**with_last("bias", np.nan)), "not finite"),
    ],
)
def test_weights_that_are_not_the_workloads_end_the_rank(weights, said):
    with pytest.raises(ValueError, match=said):
        trained(0, INITIAL, weights)


def test_a_large_table_is_compared_by_rows_as_if_it_were_whole():
    rows = DICE.normal(size=(2 * ROWS + 5, 3)).astype("float32")
    trained_rows = rows.copy()
    trained_rows[-1] += 1
    tables = [table(each.shape, lambda *ends, of=each: of[slice(*ends)]) for each in (rows, rows)]
    for array in (rows, trained_rows):
        by_rows = table(array.shape, lambda *ends, of=array: of[slice(*ends)])
        whole = trained(0, {"head": rows}, Weights(["head"], head=array))
        for initial in (rows, tables.pop()):
            given = by_rows if initial is not rows else array
            found = trained(0, {"head": initial}, Weights(["head"], head=given))
            assert found == pytest.approx(whole)
        # a framework that reads a table whole
        again = table(rows.shape, lambda *ends: rows[slice(*ends)])
        assert trained(0, {"head": again}, Weights(["head"], head=array)) == pytest.approx(whole)
