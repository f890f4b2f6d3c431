"""The merged config of a round, beside its results."""

from pathlib import Path

from dlperf.contract.files import write_if_changed
from dlperf.plan.config import Config, dump


def write_config(config: Config, results: Path = Path("results")) -> Path:
    """Write the merged, validated config to results/<round>/config.yaml; return that path."""
    path = results / config.round / "config.yaml"
    write_if_changed(path, dump(config))
    return path
