"""What the round's data still download, and take on disk.

In: the cases, config/data.yaml, and what is there. Out: an estimate for each set of data that comes
from a source and is not made yet. What is made without a download takes some megabytes, and is not
counted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dlperf.contract.case import Case
from dlperf.data import loaders

SOURCES = Path("config/data.yaml")
# What a set takes on disk, as a multiple of its source's bytes. Images: a copy, and padding. Text:
# a dump of 17.75 GB has some 3e9 tokens, of 2 bytes each as documents; as examples of 128 tokens
# with 20 predictions, 1784 bytes (npz) for some 120 tokens, once for each duplicate.
IMAGES = 1.1
DOCUMENTS, EXAMPLES = 0.4, 2.6


class Data(NamedTuple):
    """A set that is still to be made; `downloads`: source -> bytes that it still has to fetch."""

    folder: str
    downloads: dict[str, int]
    size_bytes: int


def missing(
    cases: Sequence[Case], results: Path = Path("results"), path: Path = SOURCES
) -> list[Data]:
    """The sets that the round trains on, that come from sources and are not made yet.

    Raises ConfigError where the file of sources is wrong.
    """
    wanted = {
        folder: case.data
        for case in cases
        if (folder := loaders.folder(case)) and not case.unsupported
    }
    found = {
        folder: kind
        for folder, kind in wanted.items()
        if not (results / "data" / folder / "manifest.json").exists()
    }
    if not found:
        return []
    from dlperf.data import sources  # it needs the plan's models

    known = sources.load_all(path)
    made = []
    for folder, kind in found.items():
        text = known.prepared.text.get(kind)
        prepared = text or known.prepared.images.get(kind)
        if prepared is None or prepared.source is None:
            continue
        names = [prepared.source, *([text.vocabulary] if text and text.vocabulary else [])]
        downloads = {
            name: sources.estimate(
                known.sources[name], results / "data/downloads" / name
            ).to_download
            for name in names
        }
        size = known.sources[prepared.source].files[0].bytes or 0
        factor = DOCUMENTS + EXAMPLES * text.duplicates if text else IMAGES
        made.append(Data(folder, downloads, round(factor * size)))
    return made


def download_bytes(sets: Sequence[Data]) -> int:
    """Of all sets; what several are made from is fetched once."""
    return sum({name: size for each in sets for name, size in each.downloads.items()}.values())


def disk_bytes(sets: Sequence[Data]) -> int:
    return download_bytes(sets) + sum(each.size_bytes for each in sets)
