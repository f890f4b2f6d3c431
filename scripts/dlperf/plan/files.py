"""Files that the plan writes: whole or not at all, and only when their text changed."""

import os
from pathlib import Path

from dlperf.plan.config import Config, dump


def write_if_changed(path: Path, text: str) -> bool:
    """Write `text`, unless the file has it already; whether it was written.

    A file that did not change keeps its time, so that Snakemake makes nothing again for it.
    """
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    return True


def write_config(config: Config, results: Path = Path("results")) -> Path:
    """Write the merged, validated config to results/<round>/config.yaml; return that path."""
    path = results / config.round / "config.yaml"
    write_if_changed(path, dump(config))
    return path
