"""Writes the merged config of a round beside its results."""

from pathlib import Path

import yaml

from dlperf.contract.files import write_if_changed
from dlperf.plan.config import Config


def dump(config: Config) -> str:
    """The whole config as YAML, defaults included, in the order of the models.

    It leaves out the names of a cluster's parts, so that the round can be continued elsewhere.
    """
    content = config.model_dump(exclude_none=True, exclude={"cluster"})
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)


def write_config(config: Config, results: Path = Path("results")) -> Path:
    """Write the merged, validated config to results/<round>/config.yaml; return that path."""
    path = results / config.round / "config.yaml"
    write_if_changed(path, dump(config))
    return path
