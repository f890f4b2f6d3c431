"""Records are read as strict_json reads them: the same documents, refused in the same words."""

import json

import pytest
from hypothesis import given, strategies

from dlperf.analysis.schema import documents
from dlperf.contract import strict_json

NAMES = strategies.sampled_from(["", "a", "b", 'a"', '":', " :", "\n:", "é", "\ud800"])
VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=True)
    | strategies.text('ab":\\ \n\té'),
    lambda inner: strategies.lists(inner) | strategies.lists(strategies.tuples(NAMES, inner)),
    max_leaves=12,
)
#: What stands around a document's tokens, and between a key and its colon.
SPACES = strategies.sampled_from(["", " ", "\n", "\t", "\r\n "])


def spelled(value, space, before_colon):
    """JSON of a value; a list of (key, value) is an object, so that its keys may stand twice."""
    if not isinstance(value, list):
        return json.dumps(value)
    parts = [
        f"{json.dumps(each[0])}{before_colon}:{space}{spelled(each[1], space, before_colon)}"
        if isinstance(each, tuple)
        else spelled(each, space, before_colon)
        for each in value
    ]
    is_object = bool(value) and isinstance(value[0], tuple)
    return ("{" if is_object else "[") + f",{space}".join(parts) + ("}" if is_object else "]")


def outcome(parse, content):
    try:
        return repr(parse(content))
    except ValueError as error:
        return f"refused: {error}"


@given(VALUES, SPACES, SPACES)
def test_any_document_is_read_or_refused_alike(value, space, before_colon):
    content = spelled(value, space, before_colon).encode()
    assert outcome(documents.parse, content) == outcome(strict_json.parse, content)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b" ", b"{", b"{}x", b"[1,]", b'{"a":01}', b'{"a":.5}', b'{"a":"\x01"}', b"\xff"),
        *(b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b"1" * 4200, b"1" * 5000),
        *(b"[" * 100_000, b'\xef\xbb\xbf{"a": 1}', b'{"a":1,"a":1}', b'{"a":"\\":","a":1}'),
        *(b'{"a": 1, "a" : 2}', b'{"a": 1, "a"\n: 2}', b'[{"a": 1}, "abc", {"b": 1, "b": 1}]'),
    ],
)
def test_odd_documents_are_read_or_refused_alike(content):
    assert outcome(documents.parse, content) == outcome(strict_json.parse, content)
