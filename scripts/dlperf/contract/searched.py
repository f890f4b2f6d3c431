"""What a search for the largest size found, and the case document that asks for it.

In: `searches/<workload>/<framework>/<case>.json` of a round (dlperf.search writes it). Out: a
repetition's document with the number in place, or why there is none.
"""

from dlperf.contract import storage, strict_json

SCHEMA = "dlperf.search/1"


def path_of(case):
    """Where the search of a case is, in its round's folder."""
    return "searches/%s.json" % case.folder


def read(path):
    """The document of a search. Raises ValueError that names the file, where it is none."""
    try:
        found = strict_json.read(path)
    except OSError as error:
        if storage.is_lacking(error):
            raise
        raise ValueError("%s: cannot be read: %s" % (path, error.strerror))
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError("%s: is no %s" % (path, SCHEMA))
    value = found.get("value")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("%s: value: %r is no size" % (path, value))
    if not all(isinstance(found.get(key), str) for key in ("status", "reason")):
        raise ValueError("%s: status or reason is missing" % path)
    return found


def sized(document, value):
    """A case document with `value` as the size that its identity says is searched."""
    identity = dict(document["identity"])
    identity[identity["searched"]] = value
    return dict(document, identity=identity)
