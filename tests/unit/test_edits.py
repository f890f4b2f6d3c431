"""Edits of a syntax tree find what they look for by structure, or fail."""

import ast
from pathlib import Path

import pytest
from edits import NotThere, Replace, Wrap, constant, edited

SOURCE = """
class Model:
    def forward(self, x, labels):
        # how a comment, a name or a line break stands does not matter
        each = entropy(
            self.head(x), labels, reduction="none", weight=None
        )
        mean = (each * labels).sum() / labels.sum()
        self.log(mean)
        return facts.WEIGHT * mean + facts.WEIGHT


def loss(network, batch):
    def inner(x):
        return x + 1

    return inner(network(batch))
"""


def changed(edit, source=SOURCE):
    _, made = edited(edit, {Path("page.py"): source})
    return made


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (
            Replace("Model.forward", "(_e * _m).sum() / _m.sum()", "_e.mean()"),
            "mean = each.mean()",
        ),
        (
            Replace("Model.forward", "entropy(..., reduction=_)", "entropy(..., reduction='sum')"),
            "each = entropy(self.head(x), labels, reduction='sum', weight=None)",
        ),
        (
            Replace(
                "Model.forward", "self.head(_x)", "self.head(_x * _l)", ("entropy(_, _l, ...)",)
            ),
            "each = entropy(self.head(x * labels), labels, reduction='none', weight=None)",
        ),
        (Replace("Model.forward", "self.log(_)", "pass"), "pass"),
        (
            Replace("Model", "return _a + _b", "if _b:\n    return _a"),
            "if facts.WEIGHT:\n            return facts.WEIGHT * mean",
        ),
        (constant("WEIGHT", "2"), "return 2 * mean + 2"),
        (Replace("loss.inner", "_x + 1", "_x - 1"), "return x - 1"),
        (Replace("", "_x + 1", "one(_x)", definitions="def one(x): return x"), "return one(x)"),
        (
            Wrap("loss", "def doubled(loss):\n    return lambda *given: 2 * loss(*given)"),
            "loss = doubled(loss)",
        ),
    ],
)
def test_an_edit_is_made_where_its_pattern_stands(edit, line):
    made = changed(edit)
    assert line in made
    assert made != ast.unparse(ast.parse(SOURCE))
    compile(made, "page.py", "exec")


@pytest.mark.parametrize(
    "edit",
    [
        Replace("Model.backward", "_x", "_x"),
        Replace("Model.forward", "(_e * _m).sum() / _e.sum()", "_e.mean()"),
        Replace("Model.forward", "facts.WEIGHT", "2"),  # twice there
        Replace("Model.forward", "self.head(_x)", "_l", given=("missing(_l)",)),
        Replace("Model.forward", "self.head(_x)", "_l", given=("_l.sum()",)),  # two of them
        constant("BIAS", "0"),
        Wrap("Model.forward", "def same(f):\n    return f"),
    ],
)
def test_what_is_not_there_as_often_as_an_edit_says_is_an_error(edit):
    with pytest.raises(NotThere):
        changed(edit)


def test_an_edit_is_made_in_one_module():
    sources = {Path("one.py"): SOURCE, Path("other.py"): SOURCE}
    with pytest.raises(NotThere):
        edited(Replace("loss.inner", "_x + 1", "_x", times=2), sources)
