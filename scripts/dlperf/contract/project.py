"""Where the files of this project are, whatever folder Snakemake was called in.

The input is a path below the project's folder, such as config/data.yaml. The output is a path as
the working folder sees it.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def own(name: str) -> Path:
    """The project's own file; relative to the working folder if it is inside."""
    path = ROOT / name
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def find(name: str) -> Path:
    """The working folder's file of that name if there is one, else the project's own."""
    return Path(name) if os.path.exists(name) else own(name)
