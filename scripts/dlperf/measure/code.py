"""What decides what an implementation computes: files of this package, packages of a lock.

The files are the import closure of the implementation: its page, its framework's package, the
loader of the data that certificates train on, and all that these import from `dlperf`. Of a file
its tokens count: neither comments, docstrings nor how its lines are broken and indented. A change
of anything else leaves records and certificates what they are.
"""

import ast
import functools
import hashlib
import os
import tokenize

from dlperf import workloads
from dlperf.workloads import inputs

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def of_implementation(workload, framework):
    """Paths below the package of what decides what `framework` computes for `workload`, sorted."""
    own = "dlperf.workloads.%s." % workload
    roots = [
        own + framework,
        "dlperf.frameworks." + framework,
        "dlperf.frameworks.%s.process" % framework,
        "dlperf.frameworks.%s.training" % framework,
        "dlperf.frameworks.%s.inference" % framework,
    ]
    return _closure(tuple(roots + _shared(workload)))


def of_reference(workload):
    """The same of the reference that implementations of `workload` are compared with."""
    own = "dlperf.workloads.%s." % workload
    roots = [own + "reference", "dlperf.certify.reference"]
    return _closure(tuple(roots + _shared(workload)))


def of_all_frameworks(workload):
    """The same of what every framework has: facts, batches, and the program of a rank."""
    return _closure(tuple(_shared(workload) + ["dlperf.workloads.inputs", "dlperf.measure.rank"]))


def _shared(workload):
    """What decides on both sides: neutral weights, tolerances, batches."""
    own = "dlperf.workloads.%s." % workload
    loader = workloads.data(workload)["sample"].loader
    return [own + "facts", own + "proof", inputs.module_of(workload, loader)]


def sha256(paths):
    """The sha256 of the tokens of files, which are named by their paths below the package."""
    digest = hashlib.sha256()
    for path in paths:
        tokens = _sha256_of_tokens(os.path.join(PACKAGE, path))
        digest.update(("%s %s\n" % (tokens, path)).encode())
    return digest.hexdigest()


#: Tokens that say nothing about what is computed.
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
#: From Python 3.12 on an f-string is many tokens, and before it is one.
_FSTRING_START = getattr(tokenize, "FSTRING_START", None)
_FSTRING_END = getattr(tokenize, "FSTRING_END", None)


@functools.lru_cache(maxsize=None)
def _sha256_of_tokens(path):
    """The same with every Python from 3.7 on. Raises SyntaxError, or tokenize's errors, for others.

    A statement that is nothing but a string is a docstring, and left out. An indentation counts as
    a step in or out, however deep it is.
    """
    digest = hashlib.sha256()
    for statement in _statements(path):
        if any(kind != tokenize.STRING for kind, _ in statement):
            for kind, text in statement:
                digest.update(("%s %s\0" % (tokenize.tok_name[kind], text)).encode())
            digest.update(b"\n")
    return digest.hexdigest()


def _statements(path):
    """Lists of (kind, text), one for each logical line of a file; steps in and out stand alone."""
    statement = []
    for kind, text in _tokens(path):
        if kind in (tokenize.INDENT, tokenize.DEDENT):
            yield [(kind, "")]
        elif kind == tokenize.NEWLINE:
            yield statement
            statement = []
        elif kind not in _SILENT:
            statement.append((kind, text))
    yield statement


def _tokens(path):
    """(kind, text) of each token of a file; an f-string is one STRING, as it was before 3.12."""
    with open(path, "rb") as stream:
        lines = stream.read().decode("utf-8").splitlines(True)
    start, depth = None, 0
    with open(path, "rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type == _FSTRING_START:
                start = start if depth else token.start
                depth += 1
            elif token.type == _FSTRING_END and depth:
                depth -= 1
                if not depth:
                    yield tokenize.STRING, _between(lines, start, token.end)
            elif not depth:
                # operators have kinds of their own in `exact_type` alone, alike in all Pythons
                yield token.type, token.string


def _between(lines, start, end):
    """The text of a file's lines between two (row, column), rows from 1."""
    (row, column), (last_row, last_column) = start, end
    if row == last_row:
        return lines[row - 1][column:last_column]
    middle = lines[row : last_row - 1]
    return "".join([lines[row - 1][column:], *middle, lines[last_row - 1][:last_column]])


def applied_lock(environment):
    """sha256 of the lock that an environment was made from; "" where it was made otherwise."""
    return environment.get("lock_sha256", "") if environment.get("lock_applied") else ""


@functools.lru_cache(maxsize=None)
def _closure(roots):
    found, waiting = set(), list(roots)
    while waiting:
        module = waiting.pop()
        path = _path(module)
        if path and path not in found:
            found.add(path)
            waiting += _imported(path)
            parent = module.rpartition(".")[0]
            if parent:
                waiting.append(parent)  # importing a module runs its packages
    return tuple(sorted(found))


def _path(module):
    """A module's file, below the package; "" for what is not one of its modules."""
    first, _, rest = module.partition(".")
    path = rest.replace(".", "/")
    if first == "dlperf":
        for candidate in (path + ".py", os.path.join(path, "__init__.py")):
            if os.path.isfile(os.path.join(PACKAGE, candidate)):
                return candidate
    return ""


@functools.lru_cache(maxsize=None)
def _imported(path):
    """Modules that a file imports from this package, anywhere in it."""
    with open(os.path.join(PACKAGE, path), "rb") as stream:
        tree = ast.parse(stream.read())
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            # what is imported may be a module itself
            found += ["%s.%s" % (node.module, each.name) for each in node.names]
    return [name for name in found if name.split(".")[0] == "dlperf"]
