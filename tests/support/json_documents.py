"""JSON documents spoilt at any place, for tests of what reads them."""

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
