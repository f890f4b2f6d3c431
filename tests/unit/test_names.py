"""Code names no workload outside of the workload's own folder: its facts say what is special of it.

Names stand in strings there, whole or as one of their words, in whatever case. Docstrings and
comments may cite a workload as an example.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf import workloads

PACKAGE = ROOT / "scripts/dlperf"
OWN = [PACKAGE / "workloads" / workload for workload in workloads.NAMES]
FILES = [
    ROOT / "Snakefile",
    *sorted((ROOT / "rules").glob("*.smk")),
    *(path for path in sorted(PACKAGE.rglob("*.py")) if not set(OWN) & set(path.parents)),
]
#: What others call by such a word -> why it is no workload of this project.
NAMES_OF_OTHERS = {
    "BERT-Base uncased": "a vocabulary, as its publisher calls it",
    "bert-vocabulary": "a source of config/data.yaml",
    "electra-base": "a source of config/data.yaml",
    "GPT-2": "the vocabulary of its authors",
    "BERT's by half their norm": "how large an error of OneFlow was found to be",
}
#: Keywords of a Source of logs: whose scripts write them, and where these are.
OF_SOURCES = ("title", "upstream")
SPACE = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of all string tokens but docstrings and what describes a source of logs."""
    before = [":", "\n"]  # a file may begin with a docstring, as the body of a definition may
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in SPACE:
            continue
        if token.type == tokenize.STRING:
            described = before[-1] == "=" and before[-2] in OF_SOURCES
            documents = before[-2:] == [":", "\n"] and '"""' in token.string
            if not described and not documents:
                yield token.start[0], token.string
        before.append("\n" if token.type == tokenize.NEWLINE else token.string)


def named(text: str) -> set[str]:
    """The workloads that a string names."""
    for name in NAMES_OF_OTHERS:
        text = text.replace(name, "")
    return set(re.findall(r"[a-z0-9_]+", text.lower())) & set(workloads.NAMES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_workload_is_named_outside_its_folder(path: Path):
    source = path.read_text(encoding="utf-8")
    found = [f"line {line}: {text}" for line, text in strings(source) if named(text)]
    assert not found, f"{path}: ask the workload's facts instead (docs/adding-a-workload.md)"


def test_every_name_of_others_is_still_used():
    texts = [text for path in FILES for _, text in strings(path.read_text(encoding="utf-8"))]
    for name in NAMES_OF_OTHERS:
        assert any(name in text for text in texts), name


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('if workload == "bert":\n    pass\n', {"bert"}),
        ('MODELS = {"ResNet50-v1.5": 1}\n', {"resnet50"}),
        ('print(f"{each}, or wide_deep")\n', {"wide_deep"}),
        ('rule one:\n    input:\n        "results/electra/plan.tsv",\n', {"electra"}),
        (
            '"""About bert."""\n\n\ndef one():\n    """As bert does."""\n    return "albert"\n',
            set(),
        ),
        ('Source(title="of scripts/bert", upstream="""bert.py""")\n', set()),
        ("# bert\nbert = wide_deep = 1\n", set()),
        ('take("the vocab.txt of BERT-Base uncased")\n', set()),
    ],
)
def test_which_strings_name_a_workload(source, words):
    assert set().union(*(named(text) for _, text in strings(source))) == words
