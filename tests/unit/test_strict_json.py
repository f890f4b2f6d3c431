"""Evidence means one thing to every reader: a key stands once, a number is one."""

import json

import pytest
from conftest import ROOT

from dlperf.contract import strict_json


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"window": [1], "samples": 8, "window": [2]}', 'the key "window" stands twice'),
        ('{"a": {"b": [{"c": 1, "c": 1}]}}', 'the key "c" stands twice'),
        ('{"window": 1, "win\\u0064ow": 2}', 'the key "window" stands twice'),
        ('{"": 1, "": 2}', 'the key "" stands twice'),
        ('{"a": NaN}', "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ('{"a": 1} {"a": 2}', "Extra data"),
        ('{"a": 1', "Expecting"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe{}", "utf-8"),
        (b'\xef\xbb\xbf{"a": 1}', "Expecting value"),
    ],
)
def test_what_two_readers_could_take_otherwise_is_refused(text, said):
    with pytest.raises(ValueError) as error:
        strict_json.parse(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "document", [{}, [], {"a": {"a": [{"a": 1}, {"a": 1}]}}, {"a": 1e-300, "A": "é"}, None]
)
def test_other_documents_are_read_as_they_are(document):
    assert strict_json.parse(json.dumps(document)) == document
    assert strict_json.parse(json.dumps(document, ensure_ascii=False).encode()) == document


@pytest.mark.parametrize(
    "path",
    sorted(ROOT.glob("scripts/**/*.json")) + sorted(ROOT.glob("config/*.json")),
    ids=lambda path: path.name,
)
def test_no_schema_of_the_project_has_a_key_twice(path):
    strict_json.read(path)


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "env.json"
    path.write_text('{"lock_sha256": "1", "lock_sha256": "2"}')
    with pytest.raises(ValueError, match='env.json: not JSON: the key "lock_sha256" stands twice'):
        strict_json.read(path)
