"""Make a small real set that a network learns in minutes: handwritten digits.

The input is the digits that scikit-learn's wheel ships: 1,797 images of 8 x 8 pixels with 17 shades
of grey (E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
Repository, 1998). The output is results/data/digits/: `train.npz` and `test.npz`, each with
`images`, uint8 of 0 to 16, (n, 8, 8), and `labels`, int32; and their manifest. A fifth of each
digit, drawn from the seed, is to test with.
"""

import argparse
import gzip
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from dlperf.contract import terminal
from dlperf.loaders import DataError
from dlperf.prepare import manifest

PACKAGE, FILE = "scikit-learn", "sklearn/datasets/data/digits.csv.gz"
TEST_SHARE = 0.2
MEAN, DEVIATION = 4.884, 6.017  # of all pixels


def make(out: Path, seed: int = 1) -> dict:
    """Write the two files and then manifest.json, in one step; return the manifest."""
    manifest.begin(out)
    images, labels = shipped()
    order = np.random.RandomState(seed).permutation(len(labels))
    test = np.zeros(len(labels), bool)
    for digit in range(10):
        own = order[labels[order] == digit]
        test[own[: round(len(own) * TEST_SHARE)]] = True
    for name, part in (("train", ~test), ("test", test)):
        np.savez(out / f"{name}.npz", images=images[part], labels=labels[part])
    return manifest.finish(
        out,
        "digits",
        manifest.listed(out, ["train.npz", "test.npz"]),
        samples=int((~test).sum()),
        tests=int(test.sum()),
        mean=MEAN,
        deviation=DEVIATION,
        seed=seed,
        sources=[
            {
                "package": PACKAGE,
                "version": distribution(PACKAGE).version,
                "file": FILE,
                "licence": "BSD-3-Clause (the wheel), CC BY 4.0 (UCI)",
                "credit": "E. Alpaydin and C. Kaynak, https://doi.org/10.24432/C50P49",
            }
        ],
    )


def shipped() -> tuple[np.ndarray, np.ndarray]:
    """(images, labels), read from the installed package (which is not imported)."""
    try:
        path = Path(distribution(PACKAGE).locate_file(FILE))
    except PackageNotFoundError:
        raise DataError(
            f"{sys.executable} has no {PACKAGE}, which ships {FILE}: install it (it is one of the "
            "workflow's own packages)"
        ) from None
    if not path.is_file():
        raise DataError(f"{path}: missing; install the version that envs/workflow.yaml pins")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = np.loadtxt(stream, delimiter=",")
    return rows[:, :-1].reshape(-1, 8, 8).astype(np.uint8), rows[:, -1].astype(np.int32)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.digits",
        description="Make the set of handwritten digits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/digits"), help="folder")
    parser.add_argument("--seed", type=int, default=1, help="of what is to test with")
    asked = parser.parse_args(arguments)
    try:
        made = make(asked.out, asked.seed)
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{asked.out}: {made['samples']} digits to train on, {made['tests']} to test with, "
        f"sha256 {made['sha256']}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
