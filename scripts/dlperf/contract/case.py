"""The case document: what one repetition is asked to do, read and checked before anything starts.

A document is `{"schema", "identity", "settings"}`. A record carries the same two keys, so that
`--case rep1.json` runs a recorded repetition again.
"""

import json
import os

from dlperf import frameworks, workloads

SCHEMA = "dlperf.case/1"
# The reason of a record that a cluster makes again.
NO_JOB = "%d nodes need a job of a cluster: snakemake --profile slurm"

IDENTITY = {
    "round": str,
    "workload": str,
    "framework": str,
    "scenario": str,
    "precision": str,
    "compiler": str,
    "nodes": int,
    "devices_per_node": int,
    "batch_size": int,
    "data": str,
    "repetition": int,
}
SETTINGS = {
    "device": str,
    "warmup_steps": int,
    "measured_steps": int,
    "cores_per_device": int,
    "timeout_seconds": (int, float),
    "seed": int,
    "data_dir": str,
}
CHOICES = {
    "scenario": ("train",),
    "precision": ("fp32", "amp"),
    "data": ("synthetic", "sample", "sample_native", "imagenet", "wikipedia_sample", "wikipedia"),
    "device": ("cpu", "cuda"),
}
AT_LEAST_ONE = (
    "nodes",
    "devices_per_node",
    "batch_size",
    "repetition",
    "warmup_steps",
    "measured_steps",
    "cores_per_device",
    "timeout_seconds",
)


class CaseError(ValueError):
    """A case that cannot be asked for; the message names the source, the keys and the mend."""


def load(source):
    """Return the case document of `source`: its path, a record's path, or the JSON text itself.

    Raises CaseError with every problem found, one a line.
    """
    text, name = source, "--case"
    if not source.lstrip().startswith("{"):
        name = source
        try:
            with open(source) as stream:
                text = stream.read()
        except OSError as error:
            raise CaseError("%s: cannot be read: %s" % (source, os.strerror(error.errno)))
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CaseError("%s: not JSON: %s" % (name, error))
    problems = _problems(document)
    if problems:
        raise CaseError("\n".join("%s: %s" % (name, problem) for problem in problems))
    return {
        "schema": SCHEMA,
        "identity": document["identity"],
        "settings": document["settings"],
    }


def _problems(document):
    if not isinstance(document, dict):
        return ["an object with the keys 'identity' and 'settings' is needed"]
    found = []
    for section, keys in (("identity", IDENTITY), ("settings", SETTINGS)):
        values = document.get(section)
        if not isinstance(values, dict):
            found.append("%s: missing; an object is needed" % section)
            continue
        for key, kind in keys.items():
            found.extend(_value_problems(section, key, kind, values))
        unknown = set(values) - set(keys)
        if section == "identity" and values.get("workload") in workloads.NAMES:
            dimensions = workloads.facts(values["workload"]).DIMENSIONS
            unknown -= set(dimensions)
            for key in dimensions:
                found.extend(_value_problems(section, key, int, values))
        for key in sorted(unknown):
            found.append("%s.%s: unknown key; known: %s" % (section, key, ", ".join(keys)))
    return found


def _value_problems(section, key, kind, values):
    where = "%s.%s" % (section, key)
    if key not in values:
        return ["%s: missing" % where]
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, kind):
        name = "text" if kind is str else "a number"
        return ["%s: %r is not %s" % (where, value, name)]
    allowed = CHOICES.get(key)
    if key == "framework":
        allowed = frameworks.NAMES
    elif key == "workload":
        allowed = workloads.NAMES
    if allowed and value not in allowed:
        return ["%s: %r; allowed: %s" % (where, value, ", ".join(allowed))]
    if key in AT_LEAST_ONE and value < 1:
        return ["%s: %r; at least 1" % (where, value)]
    return []
