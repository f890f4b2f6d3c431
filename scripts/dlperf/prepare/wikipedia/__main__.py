"""Make the text of BERT's and ELECTRA's pre-training from a dump of Wikipedia.

    python -m dlperf.prepare.wikipedia --dump enwiki-*-pages-articles-multistream*.xml*.bz2 \\
        --vocabulary vocab.txt --sequence-length 128 --format tfrecord \\
        --out results/data/wikipedia-seq128-tfrecord

There are two stages: documents (articles as tokens) are made once, and of them BERT's examples for
each format and sequence length (--out), or the corpus that ELECTRA draws from (--corpus). Only the
documents are made without these; without --dump they are read from --documents. A run that was
stopped resumes with the missing shards. MindRecord needs MindSpore's environment.
"""

import argparse
import os
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.prepare import formats, progress
from dlperf.prepare.wikipedia import corpus, documents, dump, examples


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.wikipedia",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = {"type": int, "metavar": "N"}
    group = parser.add_argument_group("documents")
    group.add_argument("--dump", type=Path, nargs="+", metavar="FILE", help="as downloaded, .bz2")
    group.add_argument("--vocabulary", type=Path, help="vocab.txt of BERT-Base uncased")
    group.add_argument(
        "--documents",
        type=Path,
        default=Path("results/data/wikipedia-documents"),
        help="folder of the documents (default: %(default)s)",
    )
    group.add_argument("--shards", **number, default=256, help="default: %(default)s")
    group.add_argument(
        "--language", default="en", help="language of the text (default: %(default)s)"
    )
    group.add_argument(
        "--largest",
        **number,
        default=dump.LARGEST,
        help="skip articles with more characters (default: %(default)s)",
    )
    group.add_argument("--corpus", type=Path, help="folder of one corpus, to draw from")
    group = parser.add_argument_group("examples")
    group.add_argument("--format", choices=examples.FORMATS)
    group.add_argument("--out", type=Path, help="folder of the examples")
    group.add_argument(
        "--environment",
        type=Path,
        default=Path("results/environments/mindspore.cpu/env.json"),
        help="MindSpore's environment, which writes MindRecord",
    )
    group.add_argument("--sequence-length", **number, default=128, help="default: %(default)s")
    group.add_argument(
        "--duplicates",
        **number,
        default=5,
        help="how often to use each document, with other masks (default: %(default)s)",
    )
    group.add_argument("--seed", **number, default=1, help="default: %(default)s")
    parser.add_argument("--jobs", **number, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args(arguments)
    for name in ("shards", "largest", "duplicates", "jobs"):
        if getattr(asked, name) < 1:
            sys.exit(f"error: --{name} is {getattr(asked, name)}: at least 1 is needed")
    if not 0 <= asked.seed < 2**32:
        sys.exit(f"error: --seed is {asked.seed}: must be from 0 to 2**32 - 1")
    if not (asked.dump or asked.out or asked.corpus):
        sys.exit("error: neither --dump, --out nor --corpus: nothing to make")
    if asked.dump and not asked.vocabulary:
        sys.exit("error: --dump needs a --vocabulary, such as vocab.txt of BERT-Base uncased")
    if asked.out and not asked.format:
        sys.exit(f"error: --out needs a --format: {', '.join(examples.FORMATS)}")
    try:
        if asked.format == "mindrecord":
            formats.of("mindrecord").use(asked.environment)
        if asked.dump:
            make_documents(asked)
        if asked.corpus:
            make_corpus(asked)
        if asked.out:
            make_examples(asked)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    except BrokenProcessPool:
        sys.exit(
            "error: a process was killed, perhaps because memory ran out. Fewer --jobs or more "
            "--shards need less; the same command resumes with the missing shards"
        )


def make_documents(asked: argparse.Namespace) -> None:
    manifest = documents.make(
        asked.documents,
        asked.dump,
        asked.vocabulary,
        asked.shards,
        asked.jobs,
        asked.language,
        asked.largest,
        progress.lines(f"shards of {asked.documents}"),
    )
    skipped = ", ".join(f"{count} {reason}" for reason, count in manifest["skipped"].items())
    print(
        f"{asked.documents}: {manifest['documents']} documents of {manifest['pages']} pages, "
        f"{manifest['sentences']} sentences, {manifest['tokens']} tokens; skipped: "
        f"{skipped or 'none'}"
    )


def make_corpus(asked: argparse.Namespace) -> None:
    made = corpus.make(asked.corpus, asked.documents)
    print(
        f"{asked.corpus}: {made['tokens']} tokens in {made['documents']} documents, "
        f"sha256 {made['sha256']}"
    )


def make_examples(asked: argparse.Namespace) -> None:
    manifest = examples.make(
        asked.out,
        asked.documents,
        asked.format,
        asked.sequence_length,
        asked.seed,
        asked.duplicates,
        asked.jobs,
        progress.lines(f"shards of {asked.out}"),
    )
    print(
        f"{asked.out}: {manifest['examples']} examples in {manifest['shards']} shards, "
        f"{manifest['bytes'] / 1e6:.1f} MB; sha256 of the samples {manifest['samples_sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
