"""Check a data set against its manifest: each file's sha256 and, for shards, the samples' digest.

    PYTHONPATH=scripts .venv/bin/python -m dlperf.prepare.check results/data/imagenet-tfrecord

A run checks only the sizes of large files, because reading them would take too long. This command
reads everything.
"""

import argparse
import sys
from pathlib import Path

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.manifest import SAMPLES, verify
from dlperf.prepare import formats, shards


def check(folder: Path) -> str:
    """A sentence that says what was checked and is right. Raises DataError for what is wrong."""
    manifest = verify(str(folder / "manifest.json"))
    said = f"{len(manifest['files'])} files have the sha256 that the manifest gives"
    if SAMPLES not in manifest:
        return said
    found = shards.digest(folder, manifest)
    if found != manifest[SAMPLES]:
        raise DataError(
            f"{folder}: the digest of its samples is {found}, not "
            f"{manifest[SAMPLES]} as the manifest says"
        )
    return f"{said}, and its {manifest['samples']} samples have the digest {found}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="+", help="a folder with a manifest.json")
    parser.add_argument(
        "--environment",
        type=Path,
        default=Path("results/environments/mindspore.cpu/env.json"),
        help="MindSpore's environment, which reads MindRecord (default: %(default)s)",
    )
    asked = parser.parse_args(arguments)
    try:
        for folder in asked.folder:
            if folder.name.endswith("mindrecord"):
                formats.of("mindrecord").use(asked.environment)
            print(f"{folder}: {check(folder)}")
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    terminal.as_utf8()
    main()
