"""Files that the plan writes: only when their text changed."""

from pathlib import Path

from dlperf.files import write
from dlperf.plan.config import Config, dump


def write_if_changed(path: Path, text: str) -> bool:
    """Write `text`, unless the file has it already; whether it was written.

    A file that did not change keeps its time, so that Snakemake makes nothing again for it.
    """
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write(path, text)
    return True


def write_config(config: Config, results: Path = Path("results")) -> Path:
    """Write the merged, validated config to results/<round>/config.yaml; return that path."""
    path = results / config.round / "config.yaml"
    write_if_changed(path, dump(config))
    return path
