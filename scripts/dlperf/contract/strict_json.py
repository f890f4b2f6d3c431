"""JSON that means one thing: what evidence is read with (records, certificates, manifests, …).

JSON itself leaves open what a key means that stands twice; Python takes the last one and other
readers the first, so that a document could show one number and count another. That, and NaN or
Infinity, which JSON does not have and Python's json writes, is refused.

Runs under every framework's interpreter: Python 3.7, standard library only.
"""

import json


def parse(content):
    """The document in `content` (bytes of UTF-8, or text). Raises ValueError, which says why."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read(path):
    """The document in a file. Raises OSError, or ValueError that names the file and says why."""
    with open(str(path), "rb") as stream:
        content = stream.read()
    try:
        return parse(content)
    except ValueError as error:
        raise ValueError("%s: not JSON: %s" % (path, error)) from None


def _refuse(constant):
    raise ValueError("%s is not a number" % constant)


def _mapping(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError("the key %s stands twice in the same object" % json.dumps(twice))
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_mapping)
