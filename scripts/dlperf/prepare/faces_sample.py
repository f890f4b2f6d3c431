"""Make a small set like MS1M: many pictures of each identity, in InsightFace's format.

The input is the sample photographs (sample.py). The output is results/data/faces-sample/train.rec
and train.idx (RecordIO in InsightFace's layout: a first record says how many follow; then come the
pictures, then a record for each identity with the range of its pictures), `property` (identities,
height, width), and the manifest, which is written last. An identity is a place in a photograph, and
its pictures are crops around that place. They are not faces, but they look similar enough to each
other for a model to learn from them.
"""

import argparse
import io
import random
import sys
from pathlib import Path

from PIL import Image

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.prepare import manifest, sample
from dlperf.prepare.formats import recordio

SIDE = 112  # pixels, the size of aligned faces
SHIFT = 0.1  # how far a picture is from the middle of its region, as a share of the region's side
QUALITY = 95


def make(out: Path, identities: int = 80, pictures: int = 20, seed: int = 1) -> dict:
    """Write the files and then manifest.json, in one step; return the manifest.

    Raises DataError if a photograph is missing.
    """
    manifest.begin(out)
    photographs = [sample.photograph(source).convert("RGB") for source in sample.SOURCES]
    records, ranges = [], []
    total = identities * pictures
    for identity in range(identities):
        draw = random.Random(f"{seed} {identity}")
        photograph = photographs[identity % len(photographs)]
        side = round(min(photograph.size) * draw.uniform(0.3, 0.5))
        left = draw.uniform(SHIFT, photograph.width / side - 1 - SHIFT)
        top = draw.uniform(SHIFT, photograph.height / side - 1 - SHIFT)
        first = len(records) + 1
        for _ in range(pictures):
            x, y = (side * (edge + draw.uniform(-SHIFT, SHIFT)) for edge in (left, top))
            face = photograph.resize(
                (SIDE, SIDE), Image.Resampling.LANCZOS, box=(x, y, x + side, y + side)
            )
            stream = io.BytesIO()
            face.save(stream, "JPEG", quality=QUALITY)
            picture = {"id": len(records) + 1, "label": identity, "image": stream.getvalue()}
            records.append(picture)
        ranges.append((float(first), float(len(records) + 1)))
    whole = [{"id": 0, "label": (float(total + 1), float(total + 1 + identities)), "image": b""}]
    whole += records
    whole += [
        {"id": total + 1 + identity, "label": span, "image": b""}
        for identity, span in enumerate(ranges)
    ]
    recordio.write(out / "train.rec", whole)
    (out / "property").write_text(f"{identities},{SIDE},{SIDE}\n", encoding="utf-8")
    files = manifest.listed(out, ("train.rec", "train.idx", "property"))
    return manifest.finish(
        out,
        "faces-sample",
        files,
        identities=identities,
        images=total,
        seed=seed,
        made_with=sample.made_with(),
        sources=sample.sources(),
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.faces_sample",
        description="Make a small set of identities.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/faces-sample"))
    parser.add_argument("--identities", type=int, default=80)
    parser.add_argument("--pictures", type=int, default=20, help="of each identity")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    for name in ("identities", "pictures"):
        if getattr(asked, name) < 1:
            sys.exit(f"error: --{name} is {getattr(asked, name)}: at least 1 is needed")
    try:
        made = make(asked.out, asked.identities, asked.pictures, asked.seed)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{asked.out}: {made['images']} pictures of {made['identities']} identities")


if __name__ == "__main__":
    terminal.as_utf8()
    main()
