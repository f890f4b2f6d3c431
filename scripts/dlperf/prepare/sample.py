"""Make the sample set: a small ImageNet-like folder of real photographs, without any download.

The input is photographs that the wheels of scikit-image and scikit-learn ship. The output is crops
of them, as JPEG files of ImageNet's usual sizes in class folders, and the manifest that lists them.
The same seed and the same pinned libraries give the same bytes.
"""

import argparse
import hashlib
import io
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import PIL
from PIL import Image, features

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.loaders.manifest import CLASSES
from dlperf.prepare import manifest

SIDE = (300, 500)  # pixels of an image's longer side; ImageNet's mean is 473 x 406
QUALITY = (85, 95)
SHARE = (0.6, 1.0)  # how much of a region's width and height a crop takes


@dataclass(frozen=True)
class Source:
    """A photograph that a package ships; each cell of `grid` (columns, rows) becomes a class."""

    package: str
    file: str
    grid: tuple[int, int]
    licence: str
    credit: str


SOURCES = (
    Source(
        "scikit-image",
        "skimage/data/astronaut.png",
        (2, 1),
        "public domain",
        "NASA, https://flic.kr/p/r9qvLn",
    ),
    Source("scikit-image", "skimage/data/camera.png", (1, 1), "CC0 1.0", "Lav Varshney"),
    Source("scikit-image", "skimage/data/chelsea.png", (1, 1), "CC0 1.0", "Stefan van der Walt"),
    Source("scikit-image", "skimage/data/coffee.png", (2, 1), "CC0 1.0", "Rachel Michetti"),
    Source(
        "scikit-image",
        "skimage/data/rocket.jpg",
        (2, 1),
        "public domain",
        "SpaceX, https://www.flickr.com/photos/spacexphotos/16511594820",
    ),
    Source(
        "scikit-image",
        "skimage/data/hubble_deep_field.jpg",
        (2, 2),
        "public domain",
        "NASA, http://hubblesite.org/newscenter/archive/releases/2012/37/image/a/",
    ),
    Source(
        "scikit-image",
        "skimage/data/retina.jpg",
        (2, 2),
        "CC0 1.0",
        "Mikael Häggström, https://doi.org/10.15347/wjm/2014.008",
    ),
    Source(
        "scikit-learn",
        "sklearn/datasets/images/china.jpg",
        (2, 1),
        "CC BY 2.0",
        "danielbuechele, https://www.flickr.com/photos/danielbuechele/6061409035",
    ),
    Source(
        "scikit-learn",
        "sklearn/datasets/images/flower.jpg",
        (2, 1),
        "CC BY 2.0",
        "vultilion, https://www.flickr.com/photos/vultilion/6056698931",
    ),
)


def make(out: Path, images_per_class: int = 20, seed: int = 1) -> dict:
    """Write class folders, and then manifest.json in one step; return the manifest.

    Files in the folder that the manifest does not list are left alone and never read.
    Raises DataError if a package or its photograph is missing.
    """
    if images_per_class < 1:
        raise DataError(f"--images-per-class is {images_per_class}: at least 1 is needed")
    manifest.begin(out)

    regions = [region for source in SOURCES for region in split(photograph(source), source.grid)]
    files = []
    for index, region in enumerate(regions):
        label = round(index * (CLASSES - 1) / (len(regions) - 1))
        folder = f"n{label:08d}"
        (out / folder).mkdir(exist_ok=True)
        for number in range(images_per_class):
            image, encoded = crop(region, random.Random(f"{seed} {label} {number}"))
            path = f"{folder}/{folder}_{number}.JPEG"
            (out / path).write_bytes(encoded)
            files.append(
                {
                    "path": path,
                    "label": label,
                    "sha256": hashlib.sha256(encoded).hexdigest(),
                    "bytes": len(encoded),
                    "width": image.width,
                    "height": image.height,
                }
            )
    return manifest.finish(
        out,
        "sample",
        files,
        images=len(files),
        classes=len(regions),
        seed=seed,
        made_with=made_with(),
        sources=sources(),
    )


def made_with() -> dict[str, str]:
    """The versions that the bytes depend on."""
    jpeg = features.version_feature("libjpeg_turbo")
    return {"pillow": PIL.__version__, "libjpeg_turbo": jpeg}


def sources() -> list[dict]:
    """Where the photographs come from, for a manifest."""
    return [
        {**asdict(source), "version": distribution(source.package).version} for source in SOURCES
    ]


def photograph(source: Source) -> Image.Image:
    """The source's photograph, read from its installed package (which is not imported)."""
    try:
        path = Path(distribution(source.package).locate_file(source.file))
    except PackageNotFoundError:
        raise DataError(
            f"{sys.executable} has no {source.package}, which ships {source.file}: "
            f"install it (it is one of the workflow's own packages)"
        ) from None
    if not path.is_file():
        raise DataError(
            f"{path}: missing from {source.package} {distribution(source.package).version}: "
            f"install the version that envs/workflow.yaml pins"
        )
    with Image.open(path) as image:
        image.load()
        return image


def split(image: Image.Image, grid: tuple[int, int]) -> Iterator[Image.Image]:
    columns, rows = grid
    width, height = image.width // columns, image.height // rows
    for row in range(rows):
        for column in range(columns):
            left, top = column * width, row * height
            yield image.crop((left, top, left + width, top + height))


def crop(region: Image.Image, draw: random.Random) -> tuple[Image.Image, bytes]:
    """A random part of the region, scaled to one of ImageNet's usual sizes; and it as JPEG."""
    width = round(region.width * draw.uniform(*SHARE))
    height = round(region.height * draw.uniform(*SHARE))
    left = draw.randint(0, region.width - width)
    top = draw.randint(0, region.height - height)
    scale = draw.randint(*SIDE) / max(width, height)
    image = region.resize(
        (round(width * scale), round(height * scale)),
        Image.Resampling.LANCZOS,
        box=(left, top, left + width, top + height),
    )
    encoded = io.BytesIO()
    # Nearly all of ImageNet's files are 4:2:0.
    image.save(encoded, "JPEG", quality=draw.randint(*QUALITY), subsampling="4:2:0")
    return image, encoded.getvalue()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.sample",
        description="Make the sample set of real photographs.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/sample"), help="folder")
    parser.add_argument(
        "--images-per-class", type=int, default=20, help="for each of the 20 classes"
    )
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    try:
        made = make(asked.out, asked.images_per_class, asked.seed)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['images']} images in {made['classes']} classes, "
        f"{made['bytes'] / 1e6:.1f} MB, sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
