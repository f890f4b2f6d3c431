"""Reads the config of a round, from YAML files or from the mapping that Snakemake made of them.

The output is a `Config`, or a `ConfigError` that lists everything that is wrong: what the models
refuse, and what `relations.py` finds between several keys.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dlperf import frameworks
from dlperf.contract.problems import (
    ConfigError,
    check_size,
    explain,
    misread,
    read_written,
    repeated,
)
from dlperf.contract.written import Written
from dlperf.plan import relations
from dlperf.plan.config import Config


def load(
    config: Mapping[str, Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    source: str = "",
    written: Written | None = None,
) -> Config:
    """Validate a round's config, given as a mapping, or as the path of a YAML file or of several.

    Of several files, later ones are merged over earlier ones, as by Snakemake's `--configfile`.
    `source` is the file's name in messages; `written` is what stands there, where `config` is a
    mapping. Raises ConfigError, which lists every problem.
    """
    if isinstance(config, Mapping):
        source, data = source or "config", dict(config)
        check_size(data, source)
    else:
        paths = [config] if isinstance(config, str | os.PathLike) else list(config)
        source = source or ", ".join(map(str, paths))
        data, written = dict[str, Any](), Written()
        for path in paths:
            found, written_there = read_written(Path(path), str(path) if paths[1:] else source)
            data = merged(data, found)
            written |= written_there
    written = Written() if written is None else written
    problems = [*repeated(data, written=written), *relations.as_written(data)]
    try:
        valid = Config.model_validate(data, context={"frameworks": _frameworks(data)})
    except ValidationError as error:
        problems = explain(error, Config, written, data) + problems
    else:
        known = {problem.key for problem in problems}
        problems += relations.as_validated(valid, known)
    problems += misread(data, written, problems)
    if problems:
        raise ConfigError(source, problems)
    return valid


def merged(*configs: Mapping[str, Any]) -> dict[str, Any]:
    """One config, later ones over earlier ones: sections are merged key by key, and everything else
    is replaced, lists as a whole. That is what Snakemake makes of several `--configfile`s."""
    found = dict[str, Any]()
    for config in configs:
        for key, value in config.items():
            before = found.get(key, {})
            if isinstance(value, Mapping):  # an empty one changes nothing, whatever stands there
                value = merged(before if isinstance(before, Mapping) else {}, value) or before
            found[key] = value
    return found


def _frameworks(data: Mapping[str, Any]) -> list[str]:
    """The frameworks whose compilers may be named: all that the round asks for anywhere, or all
    there are while such a list is wrong."""
    sections = data.get("workloads")
    sections = list(sections.values()) if isinstance(sections, dict) else []
    sections = [section for section in sections if isinstance(section, dict)]
    entries = [section.get("also") for section in sections]
    entries = [each for entry in entries if isinstance(entry, list) for each in entry]
    asked = list[str]()
    for part in (data, *sections, *(each for each in entries if isinstance(each, dict))):
        own = part.get("frameworks")
        if own is None and part is not data:
            continue
        if not isinstance(own, list) or not all(name in frameworks.NAMES for name in own):
            return list(frameworks.NAMES)
        asked += own
    return list(dict.fromkeys(asked)) or list(frameworks.NAMES)
