"""Generates the config's JSON schema and its table of keys, and the schema of a record's identity.

The output is `config/schema.json`, for editors and other programs; the table between two markers in
`config/README.md`; the identity in `measure/record.schema.json`, which is the case's. A test fails
when one of them differs from the models.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dlperf import measure
from dlperf.contract import case
from dlperf.contract.choices import MAX
from dlperf.contract.files import write_if_changed
from dlperf.contract.problems import keys
from dlperf.plan.config import Config

BEGIN = "<!-- keys: made by `python -m dlperf.plan schema` from the models; do not edit -->"
END = "<!-- end of keys -->"
RECORD = Path(measure.__file__).with_name("record.schema.json")


def json_schema() -> str:
    """The JSON schema of a round's config, as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
    }
    return json.dumps(schema, indent=2) + "\n"


def key_table() -> str:
    """A Markdown table of every key with its allowed values, its default and its meaning."""
    schema = Config.model_json_schema()
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in keys(Config):
        if ".also.layouts." in key:  # the same as of the section's `layouts`
            continue
        entry = _property(key, schema)
        default = "" if field.is_required() else _default(field.get_default())
        lines.append(f"| `{key}` | {_kind(entry, schema)} | {default} | {field.description} |")
    return "\n".join(lines)


def record_schema() -> str:
    """A record's JSON schema with the identity that cases have, as text."""
    schema = json.loads(RECORD.read_text(encoding="utf-8"))
    schema["properties"]["identity"] = {
        "description": "The case and the repetition, as the record's path says them, and the "
        "workload's own dimensions.",
        **case.schema(),
    }
    return json.dumps(schema, indent=1) + "\n"


def with_table(readme: str) -> str:
    """The README's text with a fresh table between its markers."""
    before, _, rest = readme.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{key_table()}\n{END}{after}"


def write(folder: Path) -> list[Path]:
    """Renew the files in `folder` (config/) and the record's; return those that changed."""
    schema, readme = folder / "schema.json", folder / "README.md"
    texts = {
        schema: json_schema(),
        readme: with_table(readme.read_text(encoding="utf-8")),
        RECORD: record_schema(),
    }
    return [path for path, text in texts.items() if write_if_changed(path, text)]


def _followed(entry: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind a reference or an optional value."""
    for option in () if _or_more(entry) else entry.get("anyOf", ()):
        if option.get("type") != "null":
            entry = option
    return schema["$defs"][entry["$ref"].rsplit("/", 1)[-1]] if "$ref" in entry else entry


def _or_more(entry: Mapping[str, Any]) -> bool:
    """Whether a value, or a list of such values, may stand there."""
    options = entry.get("anyOf", [entry])
    first, *others = [each for each in options if each.get("type") != "null"]
    return [other.get("items") for other in others] == [first]


def _property(key: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = schema
    for name in key.split("."):
        entry = _followed(entry, schema)
        entry = _followed(entry.get("items", entry), schema)["properties"][name]
    return _followed(entry, schema)


def _kind(entry: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The allowed values of a key, in a few words."""
    if {"const": MAX} in entry.get("anyOf", ()):
        return f"{_kind(_followed(entry, schema), schema)}, or `{MAX}`"
    if _or_more(entry):
        return f"{_kind(entry['anyOf'][0], schema)}; or a list of such values"
    entry = _followed(entry, schema)
    if "|GB|" in entry.get("pattern", ""):
        return "amount such as `4 GB`"
    if "enum" in entry:
        return ", ".join(f"`{word}`" for word in entry["enum"] if isinstance(word, str))
    kind = entry.get("type", "string")  # the names of keys have no type
    if kind == "array":
        return f"list of {_kind(entry['items'], schema)}"
    if kind == "integer":
        if "maximum" in entry:
            return f"{entry['minimum']} to {entry['maximum']}"
        return f"number, at least {entry['minimum']}"
    if kind == "number":
        return "number above 0"
    if kind == "boolean":
        return "`true` or `false`"
    if kind == "object":
        if "properties" in entry:
            return "section"
        of = _kind(entry["additionalProperties"], schema)
        return f"for each of {_kind(entry['propertyNames'], schema)}: {of}"
    return "words such as `1n1d`" if "n[1-9]" in entry.get("pattern", "") else "text"


def _default(value: Any) -> str:
    if value is None:
        return "left out"
    if isinstance(value, BaseModel):
        return ""
    if isinstance(value, list):  # of maps, what is not standard
        value = [
            each.model_dump(exclude_defaults=True) if isinstance(each, BaseModel) else each
            for each in value
        ]
    return f"`{json.dumps(value)}`".replace('"', "")
