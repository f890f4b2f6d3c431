"""Records and certificates against their JSON schemas.

jsonschema-rs says whether a document fits in a fiftieth of the time that jsonschema takes, which is
asked for words where it does not. Of NaN and of keys that stand twice, neither has anything to say:
contract/strict_json.py, which says what a document is, refuses them.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from pydantic_core import from_json

from dlperf.contract import strict_json

RECORD = Path(__file__).parents[2] / "measure" / "record.schema.json"
NODE = Path(__file__).parents[2] / "measure" / "node.schema.json"
CERTIFICATE = Path(__file__).parents[2] / "certify" / "certificate.schema.json"


def parse(content: bytes) -> Any:
    """The document in `content`: what strict_json.parse returns, in half of its time.

    pydantic_core takes a quarter of it, and nothing that strict_json does not take, but for keys
    that stand twice: so keys are counted, in what was read and in the text, where `":` ends a key
    unless there is white space before a colon. Raises ValueError, which says why; the words are
    strict_json's, which also reads what is written in another way.
    """
    if not (b" :" in content or b"\n:" in content or b"\r" in content or b"\t" in content):
        try:
            document = from_json(content, allow_inf_nan=False)
        except ValueError:
            return strict_json.parse(content)
        if _keys(document) == content.count(b'":'):
            return document
    return strict_json.parse(content)


def _keys(value: Any) -> int:
    """How many keys the objects in a value have; in a list of unlike ones too few are counted."""
    if type(value) is dict:
        count = len(value)
        for each in value.values():
            if type(each) in _NESTED:
                count += _keys(each)
        return count
    if type(value) is not list or not value or set(map(type, value)) != _OBJECTS:
        return 0
    if _NESTED.isdisjoint(map(type, value[0].values())):
        return sum(map(len, value))
    return sum(map(_keys, value))


_OBJECTS, _NESTED = frozenset((dict,)), frozenset((dict, list))


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
