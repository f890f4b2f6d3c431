"""What decides what an implementation computes: files of this package, packages of a lock.

The files are the import closure of the implementation: its page, its framework's package, the
loader of the data that certificates train on, and all that these import from `dlperf`. A change of
any other file leaves records and certificates what they are.
"""

import ast
import functools
import hashlib
import os

from dlperf import workloads

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


def _shared(workload):
    """What decides on both sides: neutral weights, tolerances, batches."""
    own = "dlperf.workloads.%s." % workload
    loader = workloads.data(workload)["sample"].loader
    return [own + "facts", own + "proof", "dlperf.data." + loader]


def sha256(paths):
    """The sha256 of the content of files, which are named by their paths below the package."""
    digest = hashlib.sha256()
    for path in paths:
        with open(os.path.join(PACKAGE, path), "rb") as stream:
            content = hashlib.sha256(stream.read()).hexdigest()
        digest.update(("%s %s\n" % (content, path)).encode())
    return digest.hexdigest()


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
