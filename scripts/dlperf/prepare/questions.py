"""Make questions on paragraphs ready to train on: SQuAD's JSON files become tokens and places.

The input is two files of SQuAD's own form, of version 1.1 or 2.0, one to train on and one to test
with, and a WordPiece vocabulary; and, if there is one, a published checkpoint that training starts
from. The output is a folder: `train.npz` and `test.npz` (tokens of paragraphs and questions, and
where an answer begins and ends), `answers.json` (what a test is judged by), `weights.npz` (the
checkpoint by the workload's names), and the manifest, which is written last. squad.py cuts the
windows when a rank reads the folder, so one folder serves every sequence length.

    PYTHONPATH=scripts .venv/bin/python -m dlperf.prepare.questions --train train-v1.1.json \\
        --test dev-v1.1.json --vocabulary vocab.txt --out results/data/squad
"""

import argparse
import itertools
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from dlperf import workloads
from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.manifest import sha256_of_file
from dlperf.prepare import checkpoint, manifest, prose, wordpiece

SAMPLES = Path(__file__).parent / "samples"
SAMPLE_SOURCE = {
    "file": "scripts/dlperf/prepare/samples",
    "licence": "that of this project",
    "credit": "written for this project",
}
#: Half of a pair that JSON may spell a character with: no text in UTF-8 has it.
HALF = re.compile("[\ud800-\udfff]")


class Question(NamedTuple):
    """answers: pairs of a text and the character of the paragraph that it begins with."""

    id: str
    text: str
    answers: list[tuple[str, int]]


class Paragraph(NamedTuple):
    context: str
    questions: list[Question]


def read(path: Path) -> list[Paragraph]:
    """The paragraphs of a file. Raises DataError, which names the place, for any other content."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON in UTF-8 ({error})") from None
    found, ids = [], set()
    for place, article in _list(path, "", document, "data"):
        for inner, paragraph in _list(path, place, article, "paragraphs"):
            context = _get(path, inner, paragraph, "context", str)
            questions = []
            for each, asked in _list(path, inner, paragraph, "qas"):
                questions.append(_question(path, each, asked))
                if questions[-1].id in ids:
                    raise DataError(f"{path}: {each}.id is {questions[-1].id!r}, as before")
                ids.add(questions[-1].id)
            found.append(Paragraph(context, questions))
    if not ids:
        raise DataError(f"{path}: has no question; a file of SQuAD's form is needed")
    return found


def _question(path: Path, place: str, asked: Any) -> Question:
    answers = []
    for each, answer in _list(path, place, asked, "answers"):
        start = _get(path, each, answer, "answer_start", int)
        answers.append((_get(path, each, answer, "text", str), start))
    # in the files of version 1.1 every question has an answer, and no word says so
    if isinstance(asked, dict) and "is_impossible" in asked:
        impossible = _get(path, place, asked, "is_impossible", bool)
        if impossible == bool(answers):
            there = f"{len(answers)} answers" if answers else "no answers"
            raise DataError(f"{path}: {place}.is_impossible is {impossible}, but it has {there}")
    elif not answers:
        raise DataError(f"{path}: {place} has neither answers nor is_impossible")
    text = _get(path, place, asked, "question", str)
    return Question(_get(path, place, asked, "id", str), text, answers)


def _get(path: Path, place: str, holder: Any, key: str, kind: type) -> Any:
    """holder[key], of that type."""
    name = f"{place}.{key}".removeprefix(".")
    if not isinstance(holder, dict):
        raise DataError(f"{path}: {place or 'the file'} is no object with '{key}'")
    if key not in holder:
        raise DataError(f"{path}: {name} is missing")
    value = holder[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = {str: "a text", int: "a whole number", bool: "true or false", list: "a list"}[kind]
        raise DataError(f"{path}: {name} is {_short(value)}, not {wanted}")
    if kind is str and HALF.search(value):
        raise DataError(f"{path}: {name} is {_short(value)}, with half a character")
    return value


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _list(path: Path, place: str, holder: Any, key: str) -> Iterator[tuple[str, Any]]:
    """(place, item) of the list holder[key]."""
    for number, item in enumerate(_get(path, place, holder, key, list)):
        yield f"{place}.{key}[{number}]".removeprefix("."), item


def tokens_of_answer(
    offsets: list[tuple[int, int]], start: int, end: int
) -> tuple[int, int] | None:
    """(first, last) of the tokens that have a character of [start, end); None where none has."""
    inside = [
        number for number, (first, last) in enumerate(offsets) if first < end and last > start
    ]
    return (inside[0], inside[-1]) if inside else None


def tokenize(
    path: Path, paragraphs: list[Paragraph], tokenizer: Tokenizer, tested: bool
) -> tuple[dict[str, np.ndarray], int, list[str]]:
    """(arrays, how many questions have no answer, ids of those that are left out).

    Left out of what is trained on are questions whose answer is not what stands at its place, as
    google-research/electra leaves them out. paragraph_tokens, question_tokens: one behind the
    other; paragraphs, questions: where each begins, and where the last one ends. paragraph_of:
    the paragraph of each question. first, last: tokens of its paragraph that its answer (the first
    of several) begins and ends with, -1 where there is none. offsets: of what is tested with, the
    characters of each token of the paragraphs.
    """
    contexts = tokenizer.encode_batch(
        [each.context for each in paragraphs], add_special_tokens=False
    )
    texts = [asked.text for each in paragraphs for asked in each.questions]
    encoded = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    kept, rows, left_out, unanswered = [], [], [], 0
    for number, (paragraph, tokens) in enumerate(zip(paragraphs, contexts, strict=True)):
        for asked in paragraph.questions:
            question = next(encoded)
            place: tuple[int, int] | None = (-1, -1)
            if asked.answers:
                text, start = asked.answers[0]
                end = start + len(text)
                there = start >= 0 and paragraph.context[start:end] == text
                place = tokens_of_answer(tokens.offsets, start, end) if there else None
            if place is None and not tested:
                left_out.append(asked.id)
                continue
            unanswered += not asked.answers
            kept.append(question.ids)
            rows.append((number, *(place or (-1, -1))))
    if not rows:
        raise DataError(f"{path}: no answer stands at its `answer_start`")
    table = np.array(rows, np.int32)
    arrays = {
        "paragraph_tokens": flat(each.ids for each in contexts),
        "paragraphs": prose.offsets(len(each.ids) for each in contexts),
        "question_tokens": flat(kept),
        "questions": prose.offsets(map(len, kept)),
        "paragraph_of": table[:, 0],
        "first": table[:, 1],
        "last": table[:, 2],
    }
    if tested:
        characters = [pair for each in contexts for pair in each.offsets]
        arrays["offsets"] = np.array(characters, np.int32).reshape(-1, 2)
    return arrays, unanswered, left_out


def flat(rows: Any) -> np.ndarray:
    return np.fromiter(itertools.chain.from_iterable(rows), np.uint16)


def answers_of(paragraphs: list[Paragraph]) -> dict:
    """What a test is judged by: the paragraphs, and ids and answers of the questions in order."""
    questions = [asked for each in paragraphs for asked in each.questions]
    return {
        "contexts": [each.context for each in paragraphs],
        "ids": [asked.id for asked in questions],
        "answers": [[text for text, _ in asked.answers] for asked in questions],
    }


def make(
    out: Path,
    train: Path,
    test: Path,
    vocabulary: Path | None = None,
    weights: tuple[Path, ModuleType] | None = None,
    sources: list[dict] | None = None,
) -> dict:
    """Write the folder, and its manifest as the last file; return the manifest.

    vocabulary: a file; without one it is learned from the questions and paragraphs themselves, as
    the sample's is. weights: the file of a published checkpoint (checkpoint.py), and the
    facts of the workload that starts from it.
    """
    manifest.begin(out)
    parts = {"train": read(train), "test": read(test)}
    if vocabulary is None:
        texts = [each.context for part in parts.values() for each in part]
        texts += [
            asked.text for part in parts.values() for each in part for asked in each.questions
        ]
        tokenizer = prose.vocabulary(texts)
    else:
        tokenizer = wordpiece.load(vocabulary)
    made: dict[str, Any] = {}
    for name, paragraphs in parts.items():
        path = {"train": train, "test": test}[name]
        arrays, unanswered, left_out = tokenize(path, paragraphs, tokenizer, name == "test")
        np.savez(out / f"{name}.npz", **arrays)
        made[f"{name}_questions"] = len(arrays["paragraph_of"])
        made[f"{name}_unanswerable"] = unanswered
        if left_out:
            made["left_out"] = left_out
    answers = json.dumps(answers_of(parts["test"]), ensure_ascii=False) + "\n"
    (out / "answers.json").write_text(answers, encoding="utf-8")
    words = tokenizer.get_vocab()
    entries = sorted(words, key=words.__getitem__)
    (out / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    names = ["train.npz", "test.npz", "answers.json", "vocab.txt"]
    (out / "weights.npz").unlink(missing_ok=True)  # training would start from those of before
    if weights is not None:
        file, facts = weights
        checkpoint.convert(file, out / "weights.npz", facts)
        names.append("weights.npz")
        made["weights"] = {"file": file.name, "sha256": sha256_of_file(file)}
    return manifest.finish(
        out,
        "questions",
        manifest.listed(out, names),
        **made,
        vocabulary="vocab.txt",
        made_with={"tokenizers": version("tokenizers")},
        sources=sources or [{"file": path.name} for path in (train, test)],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.questions",
        description="Make questions on paragraphs ready to train on. Without --train: the sample.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--train", type=Path, help="a file of SQuAD's form")
    parser.add_argument("--test", type=Path, help="a file of SQuAD's form")
    parser.add_argument("--vocabulary", type=Path, help="vocab.txt of BERT-Base uncased")
    parser.add_argument("--weights", type=Path, help="released weights, safetensors")
    parser.add_argument("--workload", choices=workloads.NAMES, help="that starts from the weights")
    asked = parser.parse_args(arguments)
    given = (asked.train, asked.test, asked.vocabulary)
    if any(given) and not all(given):
        parser.error("--train, --test and --vocabulary belong together")
    if bool(asked.weights) != bool(asked.workload):
        parser.error("--weights and --workload belong together")
    weights = (asked.weights, workloads.facts(asked.workload)) if asked.weights else None
    try:
        if asked.train:
            made = make(asked.out, *given, weights)
        else:
            files = (SAMPLES / "squad-train.json", SAMPLES / "squad-dev.json")
            made = make(asked.out, *files, None, weights, [SAMPLE_SOURCE])
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['train_questions']} questions to train on, "
        f"{made['test_questions']} to test with, sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
