"""The rounds in config/: each base file, and it with each smaller file that goes over it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS: list[tuple[Path, ...]] = [(ROOT / "config/config.yaml",)]
for _base in sorted((ROOT / "config/rounds").glob("*.yaml")):
    ROUNDS.append((_base,))
    ROUNDS += [(_base, over) for over in sorted(_base.with_suffix("").glob("*.yaml"))]


def name_of(paths: tuple[Path, ...]) -> str:
    """The round that these files are of: 'nvidia-resnet50-dgx-1' of two."""
    return "-".join(path.stem for path in paths)
