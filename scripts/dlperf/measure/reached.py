"""What an implementation's files reach for outside of what they are given.

A page gets its batches and its Run. One that reads an environment variable or a file, starts a
process, or looks at the modules and frames of its own process could find out what it is run for, or
take answers from elsewhere. So every such word in a workload's page and in a framework's package is
named, unless the framework says in its `reaches` why it must. Found by the source alone: what hides
a name from it has to be read by people, who find the page by its hash.
"""

import ast
import functools
import os

from dlperf import frameworks
from dlperf.measure import code

#: Modules whose use is named, wherever it stands.
MODULES = (
    *("ctypes", "cffi", "subprocess", "multiprocessing", "socket", "mmap", "runpy", "importlib"),
    *("imp", "pkgutil", "zipimport", "builtins", "inspect", "gc", "traceback", "pickle", "marshal"),
    *("shelve", "pathlib", "tempfile", "shutil", "glob", "fileinput", "linecache", "platform"),
    *("resource", "psutil", "urllib", "requests", "http"),
)
#: Functions that are built in.
BUILT_IN = ("open", "exec", "eval", "compile", "__import__", "globals", "breakpoint")
#: Attributes of these modules.
ATTRIBUTES = {
    "os": "environ environb getenv putenv popen system open fdopen listdir scandir walk stat fork "
    "getpid getppid readlink".split(),
    "sys": "argv modules meta_path path_hooks path _getframe settrace setprofile "
    "_current_frames".split(),
    "io": "open open_code FileIO".split(),
    # what a loader has for whoever judges
    "batches": ["tests", "known"],
}
#: Functions of NumPy and of frameworks that read files, whatever they are attributes of.
READ = (
    *("fromfile", "memmap", "loadtxt", "genfromtxt", "read_text", "read_bytes", "read_file"),
    *("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "load_library"),
    *("load_op_library", "load_checkpoint", "f_back", "f_locals", "f_globals", "tb_frame"),
    *("environ", "environb", "getenv", "_getframe", "meta_path", "path_hooks"),
    *("__globals__", "__builtins__", "__loader__", "__spec__"),
)
#: What has a `load` that reads a file.
LOADING = ("np", "numpy", "torch", "mx", "nd", "npx", "paddle", "flow", "oneflow", "jnp", "ms")


def unexplained(workload, framework):
    """['path: word'] of what a workload's page in a framework reaches for, and gives no reason for.

    Paths are below the package. A framework's process.py reads environment variables: it sets the
    process up before a page is loaded, and the record says what it found.
    """
    reasons = frameworks.of(framework).reaches
    return [
        each
        for path in pages(workload, framework)
        for each in ("%s: %s" % (path, word) for word in words(path))
        if each not in reasons and not _sets_up(each)
    ]


def _sets_up(text):
    folder, _, name = text.rpartition("/")
    return folder.startswith("frameworks/") and name == "process.py: os.environ"


def pages(workload, framework):
    """The files that are looked at: what decides what is computed, and is not every framework's.

    What packages share, and loaders, which have to read files, are read by whoever changes them.
    """
    shared = code.of_all_frameworks(workload)
    return [
        path
        for path in code.of_implementation(workload, framework)
        if path not in shared and not path.startswith(("contract/", "loaders/"))
    ]


@functools.lru_cache(maxsize=None)
def words(path):
    """What a file reaches for, each once, in the order of the names."""
    with open(os.path.join(code.PACKAGE, path), "rb") as stream:
        tree = ast.parse(stream.read())
    found = set()
    for node in ast.walk(tree):
        found.update(_words(node))
    return sorted(found)


def _words(node):
    if isinstance(node, ast.Import):
        for each in node.names:
            yield from _of_module(each.name)
            if each.asname and each.name in ATTRIBUTES:
                yield "%s as %s" % (each.name, each.asname)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from _of_module(node.module)
        for each in node.names:
            if each.name == "*":
                yield "from %s import *" % node.module
            yield from _of_attribute(node.module, each.name)
    elif isinstance(node, ast.Name) and node.id in BUILT_IN + ("__builtins__", "__loader__"):
        yield node.id
    elif isinstance(node, ast.Attribute):
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else ""
        name = owner.attr if isinstance(owner, ast.Attribute) else name
        yield from _of_attribute(name, node.attr)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        # getattr(os, "environ"), whose second argument may be any text
        given = node.args[:1]
        if node.func.id in ("getattr", "vars") and given and isinstance(given[0], ast.Name):
            if given[0].id in ATTRIBUTES:
                yield "%s(%s)" % (node.func.id, given[0].id)


def _of_module(name):
    first = name.split(".")[0]
    if first in MODULES:
        yield first


def _of_attribute(owner, name):
    if name in ATTRIBUTES.get(owner, ()):
        yield "%s.%s" % (owner, name)
    elif name in READ or (name == "load" and owner in LOADING):
        yield name
