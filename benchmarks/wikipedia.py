"""How fast is the preparation of a Wikipedia dump, beside wikiextractor's own program?

    python benchmarks/wikipedia.py [--copies 20] [--pairs 5] [--jobs 2]

The sample dump, its prose repeated to some 100 MB of XML, goes through both in turns, each with
`--jobs` processes, the order swapped in each pair: `extract` is our articles and their clean
paragraphs, written as text, which is what wikiextractor does; `documents` is the whole first stage,
with sentences and tokens. Then one process makes examples of 128 tokens from the documents, in
each format. Printed, and written to results/benchmarks/wikipedia.tsv, with the median ratio of
processor time too, which a busy machine disturbs less; exits 1 where extracting is slower than 0.8
of wikiextractor.
"""

import argparse
import bz2
import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import common

from dlperf.prepare import formats
from dlperf.prepare.wikipedia import clean, documents, dump, examples, sample

ASKED = 0.8  # of wikiextractor's speed
SHARDS = 16
FORMATS = ("tfrecord", "ofrecord", "hdf5", "npz")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=20, help="of the prose (default: 20)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--stage", choices=sorted(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        STAGES[asked.stage](asked.folder, asked.jobs)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sample.make(folder, asked.copies)
        megabytes = len(bz2.decompress((folder / sample.NAME).read_bytes())) / 1e6
        rows = [compare(stage, asked, folder, megabytes) for stage in ("extract", "documents")]
        rates = [rate(format, folder) for format in FORMATS]
    for row in rows:
        print(
            "{stage}: {megabytes_per_second} MB/s of XML, {ratio_median} [{ratio_low}, "
            "{ratio_high}] of wikiextractor's speed ({coverage:.1%}, {pairs} pairs); "
            "{processor_ratio} by processor time".format(**row)
        )
    print("->", common.write("wikipedia", rows, ("stage", "jobs")))
    for row in rates:
        print("examples: {examples_per_second} a second of one core, as {format}".format(**row))
    print("->", common.write("wikipedia-examples", rates, ("format",)))
    if rows[0]["ratio_median"] < ASKED:
        sys.exit(f"error: slower than {ASKED} of wikiextractor; was the machine quiet?")


def compare(stage, asked, folder, megabytes):
    ours = [sys.executable, __file__, "--stage", stage, "--folder", str(folder)]
    theirs = [sys.executable, "-m", "wikiextractor.WikiExtractor", str(folder / sample.NAME)]
    theirs += ["--no-templates", "--quiet", "--output", str(folder / "theirs"), "--processes"]
    commands = [[*ours, "--jobs", str(asked.jobs)], [*theirs, str(asked.jobs)]]
    pairs = []
    for pair in range(asked.pairs):
        taken = {place: timed(commands[place]) for place in ((0, 1), (1, 0))[pair % 2]}
        pairs.append((taken[0], taken[1]))
    seconds, processor = ([[side[kind] for side in pair] for pair in pairs] for kind in (0, 1))
    median = statistics.median(mine for mine, _ in seconds)
    return {
        "stage": stage,
        "jobs": asked.jobs,
        "megabytes": round(megabytes, 1),
        "megabytes_per_second": round(megabytes / median, 2),
        **common.summary([other / mine for mine, other in seconds]),
        "processor_ratio": round(statistics.median(other / mine for mine, other in processor), 4),
    }


def timed(command):
    """Seconds, and the processor's seconds of the command and all of its processes."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(common.ROOT / "scripts")}, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def extract(folder, jobs):
    """What wikiextractor does, by our parts."""
    shares = dump.divide([dump.scan(folder / sample.NAME)], SHARDS)
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(functools.partial(extract_share, folder), range(SHARDS), shares))


def extract_share(folder, number, share):
    with open(folder / f"ours-{number}.txt", "w", encoding="utf-8") as stream:
        for part in share:
            for article in dump.articles(part, dump.LARGEST, Counter()):
                with clean.limit(clean.LIMIT_SECONDS):
                    paragraphs = clean.paragraphs(article.text)
                stream.write("\n".join([article.title, *paragraphs, "", ""]))


def all_documents(folder, jobs):
    out = folder / "documents"
    (out / "manifest.json").unlink(missing_ok=True)  # or they would be kept
    documents.make(out, [folder / sample.NAME], folder / "vocab.txt", SHARDS, jobs)


STAGES = {"extract": extract, "documents": all_documents}


def rate(format, folder):
    manifest = examples.verify(str(folder / "documents" / "manifest.json"))
    special = manifest["vocabulary"]["special"]
    marks = examples.Marks(*(special[entry] for entry in examples.SPECIAL[2:]))
    names = [file["path"] for file in manifest["files"]]
    start = time.process_time()  # one process alone, so that a busy machine disturbs it less
    path = folder / f"examples{formats.of(format).SUFFIX}"
    facts = examples.write_shard(
        folder / "documents", names, format, 128, 1, 2, marks, SHARDS // 2, path
    )
    seconds = time.process_time() - start
    return {
        "format": format,
        "examples": facts["samples"],
        "examples_per_second": round(facts["samples"] / seconds),
        "bytes_per_example": round(path.stat().st_size / facts["samples"]),
    }


if __name__ == "__main__":
    main()
