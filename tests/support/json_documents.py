"""JSON documents spoilt at any place, for tests of what reads them."""

import copy
import json

from hypothesis import strategies as st


def places(document, path=()):
    """The path of every value in a JSON document."""
    yield path
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield from places(value, (*path, key))


values = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(-1, 2), st.text(max_size=3)
) | st.sampled_from([[], {}, "ok", "crashed", [0.5], {"rank": 0}, 1.0, "2026-11-21T05:00:00Z"])


def one_changed(document, draw):
    """The document with a value that is dropped, or another one."""
    document = copy.deepcopy(document)
    *parents, last = draw(st.sampled_from([path for path in places(document) if path]))
    holder = document
    for key in parents:
        holder = holder[key]
    if draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = draw(values)
    return document


#: What json writes of what JSON does not have, and what reads as a number that a float is not.
NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e400")


def kind(value):
    """A value's type, as JSON has them."""
    return float if type(value) is int else type(value)


def damaged(document, draw):
    """The document's bytes with one damage: cut off, a key dropped, a value of another type or
    nested, a number that is none."""
    how = draw(st.sampled_from(["cut", "drop", "type", "nest", "no number"]))
    if how == "cut":
        text = json.dumps(document).encode()
        return text[: draw(st.integers(0, len(text) - 1))]
    document = copy.deepcopy(document)
    *parents, last = draw(st.sampled_from([path for path in places(document) if path]))
    holder = document
    for key in parents:
        holder = holder[key]
    value = holder[last]
    if how == "drop":
        del holder[last]
    elif how == "nest":
        holder[last] = draw(st.sampled_from([[value], {"value": value}, [[]] * 3]))
    elif how == "type":
        others = values.filter(lambda other: kind(other) is not kind(value))
        holder[last] = draw(others)
    else:
        holder[last] = "@"
    text = json.dumps(document)
    return text.replace('"@"', draw(st.sampled_from(NO_NUMBERS))).encode()
