"""Records and certificates against their JSON schemas.

jsonschema-rs says whether a document fits in a fiftieth of the time that jsonschema takes, which is
asked for words where it does not. Of NaN and of keys that stand twice, neither has anything to say:
contract/strict_json.py, which reads the documents, refuses them.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

RECORD = Path(__file__).parents[2] / "measure" / "record.schema.json"
NODE = Path(__file__).parents[2] / "measure" / "node.schema.json"
CERTIFICATE = Path(__file__).parents[2] / "certify" / "certificate.schema.json"


@cache
def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _quick(path: Path) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(load(path))


def problems(document: Any, path: Path) -> list[str]:
    """What is wrong by the schema in `path`: 'identity.nodes: 0 is less than …', one a line."""
    if _quick(path).is_valid(document):
        return []
    return explain(document, path) or ["a number is too large"]  # 1e999, which Python reads as inf


def explain(document: Any, path: Path) -> list[str]:
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(load(path)).iter_errors(document)
    found = []
    for error in sorted(errors, key=lambda error: list(map(str, error.absolute_path))):
        place = ".".join(map(str, error.absolute_path))
        message = error.message if len(error.message) < 300 else error.message[:297] + "..."
        found.append(f"{place}: {message}" if place else message)
    return found
