"""How much of the round's data is still to be downloaded, how much disk it takes, what it misses.

The input is the cases, config/data.yaml and the existing data. The output is an estimate for each
data set that comes from a source and is not made yet, and a message where the quality scenario
would start from random weights. Sets that need no download take only a few megabytes and are not
counted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dlperf import scenarios, workloads
from dlperf.contract import project, strict_json
from dlperf.contract.case import Case
from dlperf.contract.problems import Problem
from dlperf.workloads import inputs

SOURCES = "config/data.yaml"
# The size of a set on disk, as a multiple of its source's bytes. Images: a copy and padding. Text:
# a dump of 17.75 GB has about 3e9 tokens, each with 2 bytes as documents. As examples of 128 tokens
# with 20 predictions, about 120 tokens take 1784 bytes (npz), once for each duplicate. Clicks: 172
# bytes a row, beside the text that the archive unpacks to while they are made: 4.58 GB have 45.8
# million rows and 11 GB. Questions: a token takes two bytes of what are five characters, and the
# text of those to test with stays; the weights are kept a second time. Tokens are linked.
IMAGES = 1.1
CLICKS = 4.2
QUESTIONS, WEIGHTS = 1.0, 450_000_000
DOCUMENTS, EXAMPLES = 0.4, 2.6
CORPUS = 0.5  # the tokens again, and where sentences begin


class Data(NamedTuple):
    """A set that is still to be made. `downloads`: source -> bytes that are still to be fetched."""

    folder: str
    downloads: dict[str, int]
    size_bytes: int


def missing(
    cases: Sequence[Case], results: Path = Path("results"), path: Path | None = None
) -> list[Data]:
    """The sets of the round that come from sources and are not made yet.

    Raises ConfigError if the file of sources is wrong.
    """
    wanted = {
        folder: folder.rpartition("-")[0] if tested else case.data
        for case in cases
        if not case.unsupported
        for tested, folder in enumerate(inputs.folders(case))
    }
    found = {
        folder: kind
        for folder, kind in wanted.items()
        if not (results / "data" / folder / "manifest.json").exists()
    }
    if not found:
        return []
    from dlperf.prepare import sources  # it needs the plan's models

    known = sources.load_all(path or project.find(SOURCES))
    made = []
    for folder, kind in found.items():
        text = known.prepared.text.get(kind)
        clicks = known.prepared.clicks.get(kind)
        questions = known.prepared.questions.get(kind)
        tokens = known.prepared.tokens.get(kind)
        # several kinds of data may read a set of images, whose folder is named by it
        images = known.prepared.images.get(folder.rpartition("-")[0])
        prepared = text or clicks or questions or tokens or images
        if prepared is None or prepared.source is None:
            continue
        also = (getattr(prepared, key, None) for key in ("vocabulary", "weights"))
        names = [prepared.source, *filter(None, also)]
        downloads = {
            name: sources.estimate(
                known.sources[name], results / "data/downloads" / name
            ).to_download
            for name in names
        }
        size = known.sources[prepared.source].files[0].bytes or 0
        factor = CLICKS if clicks else IMAGES
        if text:
            joined = folder.endswith("-corpus")
            factor = DOCUMENTS + (CORPUS if joined else EXAMPLES * text.duplicates)
        kept = WEIGHTS if questions and questions.weights else 0
        factor = QUESTIONS if questions else 0 if tokens else factor
        made.append(Data(folder, downloads, round(factor * size) + kept))
    return made


def without_weights(
    cases: Sequence[Case], results: Path = Path("results"), path: Path | None = None
) -> str:
    """A message if the quality scenario lacks the released weights that it starts from, else ''.

    From random ones it would run for hours and learn nothing. Speed does not depend on weights, so
    `train` and `infer` may do without. Of data that are there, what they were made with counts.
    Raises ConfigError if the file of sources is wrong.
    """
    asked = {
        case.data: case.workload
        for case in cases
        if scenarios.curved(case.scenario) and workloads.of(case.workload).released
    }
    if not asked:
        return ""
    from dlperf.prepare import sources  # it needs the plan's models

    path = path or project.find(SOURCES)
    known = sources.load_all(path).prepared.questions
    for kind in sorted(asked.keys() & known.keys()):  # a sample, which tests the path, is not known
        manifest = results / "data" / kind / "manifest.json"
        file, key, there = path, f"prepared.questions.{kind}.weights", known[kind].weights
        fix = "name the source that has them, such as `weights: electra-base`"
        if manifest.exists():
            file, key, there = manifest, "weights", _read(manifest).get("weights")
            fix = f"remove {manifest.parent}/, which is made again with those that {path} names"
        if not there:
            message = (
                f"is missing, but `quality` of {asked[kind]} on `data: [{kind}]` starts from "
                f"released weights, as from random ones nothing is learned; {fix}, or leave "
                "'quality' out of `scenarios` ('train' and 'infer' may start from random ones)"
            )
            return f"{file}: {Problem(key, '', message)}"
    return ""


def _read(manifest: Path) -> dict[str, Any]:
    """The manifest; one that cannot be read is refused where it is used."""
    try:
        return dict(strict_json.read(manifest))
    except (ValueError, TypeError):
        return {"weights": "not known"}


def download_bytes(sets: Sequence[Data]) -> int:
    """The bytes to download for all sets; a source that several sets share is counted once."""
    return sum({name: size for each in sets for name, size in each.downloads.items()}.values())


def disk_bytes(sets: Sequence[Data]) -> int:
    return download_bytes(sets) + sum(each.size_bytes for each in sets)
