"""Records and certificates against their JSON schemas.

jsonschema-rs says whether a document fits in a fiftieth of the time that jsonschema takes, which is
asked for words where it does not. Of NaN and the like, which JSON does not have and Python's json
writes, neither has anything to say: `parse` refuses them.
"""

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

RECORD = Path(__file__).parents[2] / "measure" / "record.schema.json"
NODE = Path(__file__).parents[2] / "measure" / "node.schema.json"
CERTIFICATE = Path(__file__).parents[2] / "certify" / "certificate.schema.json"
#: A number as large as those that a float does not hold.
_LARGE = re.compile(rb"\d[eE]\+?\d{3}|\d{300}")


def parse(content: bytes) -> Any:
    """The JSON document. Raises ValueError for what is none, or has a number that is none."""
    try:
        document = _DECODER.decode(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _LARGE.search(content) and not all(map(_is_finite, _numbers(document))):
        raise ValueError("a number is too large")
    return document


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _numbers(document: Any) -> Iterator[float]:
    if isinstance(document, dict | list):
        for each in document.values() if isinstance(document, dict) else document:
            yield from _numbers(each)
    elif isinstance(document, int | float):
        yield document


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond a float
        return False


@cache
def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


@cache
def _quick(path: Path) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(load(path))


def problems(document: Any, path: Path) -> list[str]:
    """What is wrong by the schema in `path`: 'identity.nodes: 0 is less than …', one a line."""
    return [] if _quick(path).is_valid(document) else explain(document, path)


def explain(document: Any, path: Path) -> list[str]:
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(load(path)).iter_errors(document)
    found = []
    for error in sorted(errors, key=lambda error: list(map(str, error.absolute_path))):
        place = ".".join(map(str, error.absolute_path))
        message = error.message if len(error.message) < 300 else error.message[:297] + "..."
        found.append(f"{place}: {message}" if place else message)
    return found
