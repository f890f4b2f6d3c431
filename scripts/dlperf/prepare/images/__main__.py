"""Make shards of images in one format.

    python -m dlperf.prepare.images --source ILSVRC2012_img_train.tar --format tfrecord \\
        --out results/data/imagenet-tfrecord --shards 1024

The source is ImageNet's training tar as it is downloaded (it is not unpacked), a tar of images with
a file of their classes, or class folders. A run that was stopped resumes with the missing shards.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.prepare import formats, progress
from dlperf.prepare.images import archive, prepare
from dlperf.prepare.sample import made_with


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.images",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--source", type=Path, required=True, help="a tar, or class folders")
    parser.add_argument(
        "--labels",
        type=Path,
        help="for a tar of images: a file with lines of name and class, or ImageNet's devkit",
    )
    parser.add_argument("--dataset", default="imagenet", help="name in the manifest")
    parser.add_argument("--format", choices=prepare.NAMES, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--shards", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--environment",
        type=Path,
        default=Path("results/environments/mindspore.cpu/env.json"),
        help="MindSpore's environment, which writes MindRecord",
    )
    parser.add_argument("--seed", type=int, default=1, help="for the order of all images")
    parser.add_argument(
        "--keep-order", action="store_true", help="keep the source's order (for validation)"
    )
    asked = parser.parse_args(arguments)
    for name in ("shards", "jobs"):
        if getattr(asked, name) < 1:
            sys.exit(f"error: --{name} is {getattr(asked, name)}: at least 1 is needed")
    try:
        if asked.format == "mindrecord":
            formats.of("mindrecord").use(asked.environment)
        index = archive.index(asked.source, asked.labels)
        if asked.shards > len(index):
            raise DataError(f"--shards is {asked.shards}, more than the {len(index)} images")
        settings = {
            "dataset": asked.dataset,
            "images": len(index),
            "made_with": made_with(),
            "sources": origin(asked.source),
        }
        manifest = prepare.make(
            index,
            asked.format,
            asked.out,
            asked.shards,
            settings,
            asked.jobs,
            None if asked.keep_order else asked.seed,
            progress.lines(f"shards of {asked.out}"),
        )
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    left = sum(manifest["skipped"].values())
    print(
        f"{asked.out}: {manifest['samples']} images in {asked.shards} shards, "
        f"{manifest['bytes'] / 1e6:.1f} MB, {left} left out, "
        f"{sum(manifest['repaired'].values())} repaired; sha256 of the samples "
        f"{manifest['samples_sha256']}"
    )


def origin(source: Path) -> list[dict]:
    """Whose images they are, from the manifest beside them; [] if there is none."""
    path = (source if source.is_dir() else source.parent) / "manifest.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    named = {key: found[key] for key in ("title", "licence") if key in found}
    return found.get("sources", [named])


if __name__ == "__main__":
    terminal.as_utf8()
    main()
