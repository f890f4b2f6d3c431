"""Check a corpus of token ids that is on this machine, and link it for language models.

The input is a .bin of Megatron-LM's form with its .idx beside it, or a flat one of uint16, as
nanoGPT writes it. Every token and all of the index are read once. The output is a folder with links
to the files and the manifest, which is written last.

    PYTHONPATH=scripts .venv/bin/python -m dlperf.prepare.tokens --file train.bin \\
        --vocabulary-size 50257 --out results/data/tokens
"""

import argparse
import sys
from pathlib import Path

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.token_files import FILE, check_whole, index_path, mapped
from dlperf.prepare import manifest


def make(out: Path, file: Path, vocabulary_size: int) -> dict:
    """Check the corpus, link it, and write manifest.json in one step; return the manifest.

    Raises DataError if the file is of another form, has no tokens, or has one that is not below
    `vocabulary_size`.
    """
    manifest.begin(out)
    if file.suffix == ".idx":
        raise DataError(f"{file}: is an index; name the .bin beside it, which has the tokens")
    corpus = mapped(str(file))
    if not len(corpus.tokens):
        raise DataError(f"{file}: has no tokens; name the file that has them")
    largest = check_whole(corpus, vocabulary_size)
    links = {FILE: file}
    if corpus.index is not None:
        links[index_path(FILE)] = Path(index_path(str(file)))
    for name in (FILE, index_path(FILE)):  # a flat file must not meet the index of an earlier one
        (out / name).unlink(missing_ok=True)
    for name, target in links.items():
        (out / name).symlink_to(target.absolute())
    documents = {} if corpus.index is None else {"documents": len(corpus.index.documents) - 1}
    return manifest.finish(
        out,
        "tokens",
        manifest.listed(out, links),
        tokens=len(corpus.tokens),
        largest_token=largest,
        vocabulary_size=vocabulary_size,
        type=corpus.tokens.dtype.name,
        **documents,
        sources=[{"file": file.name}],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.tokens",
        description="Check a corpus of token ids, and link it for language models.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--file", type=Path, required=True, help="the .bin that has the tokens")
    parser.add_argument(
        "--vocabulary-size", type=int, default=51200, help="every token has to be below this number"
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/tokens"), help="folder")
    asked = parser.parse_args(arguments)
    if asked.vocabulary_size < 1:
        parser.error("--vocabulary-size: at least 1 is needed")
    try:
        made = make(asked.out, asked.file, asked.vocabulary_size)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['tokens']} tokens, the largest {made['largest_token']}, "
        f"sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
