"""What ran beside an implementation: all files that a rank's process had imported at its end.

`code.of_implementation` finds what an implementation's files say that they import; here is what was
there, dynamic imports and shared objects included. A file is this package's, an installed
package's, which lists the sha256 of its files (RECORD), Python's own, the system's, or what the
framework compiled. One that is none of these, or differs from its package's list, is named: nobody
vouches for it.
"""

import base64
import csv
import functools
import glob
import hashlib
import importlib.machinery
import importlib.util
import json
import marshal
import os
import platform
import struct
import sys
import sysconfig

from dlperf.contract import files
from dlperf.measure import code
from dlperf.measure.record import file_sha256

MAPS = "/proc/self/maps"
#: Of a digest that a record has for each package.
DIGITS = 16
#: Where a system keeps its libraries, and drivers put theirs.
SYSTEM = ("/lib", "/lib32", "/lib64", "/usr", "/opt/cuda")
PACKAGES = ("site-packages", "dist-packages")
#: Folders of Python's own library that no program runs.
UNUSED = PACKAGES + ("test", "tests", "idlelib", "__pycache__", "ensurepip", "turtledemo")
#: The sha256 of a file above this size is kept from one repetition to the next, for as long as its
#: size, inode and times are the same: a framework has a gigabyte of them, which take a second.
LARGE = 2**23
CACHE = os.path.join("results", ".cache", "sha256.json")
#: What the pinned uv writes into environments of old Pythons; no package lists it.
MAKERS = {
    "cfb3db86aaa53bb62b5ff764970bec2d71c9228590a0ebec57f6ec926cc0bf1a": "_virtualenv.py",
    "69ac3d8f27e679c81b94ab30b3b56e9cd138219b1ba94a1fa3606d5a76a1433d": "_virtualenv.pth",
    # envs/ctrl_c.pth, which `make` puts into .venv
    "82ae23cf3f587e87af6ea636f38a735661ca32a8b9ddd3816329b4b40350afb5": "ctrl_c.pth",
}


class Watch:
    """Notes each module that is looked for, and so those that are not in sys.modules at the end.

    A finder in front of the others that finds nothing: it is asked when a module is imported first,
    and costs nothing after that. Made before anything is imported that is not this package's.
    """

    def __init__(self):
        self._asked = {}
        self._libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        self._asked.setdefault(name, path)

    def facts(self, framework, anew=False):
        """What ran here, by `framework`'s name: see `together`.

        anew: large files are read again, whatever is known of them.
        """
        problems = [] if self in sys.meta_path else ["sys.meta_path: was changed"]
        try:
            owners = Owners(framework, self._libraries)
            return owners.facts(self._imported(), problems, Hashes(anew))
        except Exception as error:  # of what lies beside it a measurement must not fail
            problems.append("could not be listed: %s: %s" % (type(error).__name__, error))
            return _facts("", "", {}, [], problems, 0)

    def _imported(self):
        """Paths of all files that were imported, or mapped to run them, sorted."""
        found = set(self._gone())
        for module in list(sys.modules.values()):
            about = _about(module)
            found.add(about.get("__file__"))
            spec = about.get("__spec__")
            if isinstance(spec, importlib.machinery.ModuleSpec) and spec.has_location:
                found.add(spec.origin)
        for folder in _package_folders():  # lines in these are run at each start
            found.update(glob.glob(os.path.join(glob.escape(folder), "*.pth")))
        with open(MAPS, encoding="utf-8", errors="surrogateescape") as stream:
            for line in stream:
                fields = line.rstrip("\n").split(None, 5)
                if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                    found.add(fields[5])
        return sorted({os.path.abspath(each) for each in found if each and isinstance(each, str)})

    def _gone(self):
        """Files of modules that were looked for and found, and are not in sys.modules as such."""
        for name, path in list(self._asked.items()):
            spec = _about(sys.modules.get(name)).get("__spec__")
            if not isinstance(spec, importlib.machinery.ModuleSpec) or spec.name != name:
                try:
                    spec = importlib.machinery.PathFinder.find_spec(name, path)
                except Exception:  # where a package failed half way, its path may be anything
                    continue
                if spec is not None and spec.has_location:
                    yield spec.origin


def _about(module):
    """A module's own names; not by getattr, at which some begin to import others."""
    try:
        return object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}


class Owners:
    """Who vouches for a file."""

    def __init__(self, framework, libraries):
        own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
        prefix = os.path.realpath(sys.base_prefix)
        # where Python is the system's, its prefix has everything
        self._python = own if prefix in ("/usr", "/") else own | {prefix}
        self._project = os.path.realpath(code.PACKAGE)
        self._libraries = {os.path.realpath(each) for each in libraries if each}
        folders = [os.environ.get(name) for name in ("TMPDIR",) + tuple(framework.compiles_into)]
        self._compiled = {os.path.realpath(each) for each in folders if each}

    def facts(self, paths, problems, hashes):
        project, others, compiled, altered = [], {}, 0, []
        for path in paths:
            folder, name = os.path.split(path)
            real = os.path.join(os.path.realpath(folder), name)
            kind = self._kind(real)
            if kind == "project":
                project.append(os.path.relpath(real, self._project))
                if is_other_code(real):
                    altered.append(path + ": its compiled file is of other code")
            elif kind == "compiled":
                compiled += 1
            elif not kind:
                others[real] = path
        packages, lists = listed(others)
        strangers = list(problems)
        for real, path in others.items():
            found, wanted = hashes.sha256(real), lists.get(real, ())
            if found not in wanted and os.path.basename(real) != MAKERS.get(found):
                (altered if wanted else strangers).append(path)
        hashes.save()
        python = "%s %s" % (platform.python_version(), python_sha256()[:DIGITS])
        own = code.sha256(sorted(project))
        return _facts(python, own, packages, altered, strangers, compiled)

    def _kind(self, real):
        if _is_within(real, [self._project]):
            return "project"
        if not set(PACKAGES).isdisjoint(real.split(os.sep)):
            return ""
        if _is_within(real, self._compiled):
            return "compiled"
        if _is_within(real, self._python):
            return "python"
        if not real.endswith((".py", ".pyc")):
            if _is_within(real, SYSTEM) or os.path.dirname(real) in self._libraries:
                return "system"
        return ""


def listed(paths):
    """({name of a package: version and digest of its list}, {path: sha256 that lists have of it}).

    Of the packages that have any of `paths`, and of these paths.
    """
    packages, found = {}, {}
    for folder in sorted({os.path.realpath(each) for each in sys.path if os.path.isdir(each)}):
        wanted = {
            os.path.relpath(path, folder): path for path in paths if _is_within(path, [folder])
        }
        if not wanted:
            continue
        for record in glob.glob(os.path.join(glob.escape(folder), "*.dist-info", "RECORD")):
            own, digest = _read_list(record, wanted)
            for path, sha256 in own:
                found.setdefault(path, set()).add(sha256)
            if own:
                name, _, version = os.path.basename(os.path.dirname(record))[:-10].rpartition("-")
                packages[name] = "%s %s" % (version, digest)
    for document in glob.glob(os.path.join(glob.escape(sys.prefix), "conda-meta", "*.json")):
        # conda writes its folder into some files, which are no longer as their lists say
        with open(document, encoding="utf-8") as stream:
            entries = json.load(stream).get("paths_data", {}).get("paths", ())
        for entry in entries:
            path = os.path.join(os.path.realpath(sys.prefix), entry["_path"])
            if path in paths:
                own = {entry.get("sha256_in_prefix"), entry.get("sha256")} - {None}
                found.setdefault(path, set()).update(own)
    return packages, found


def _read_list(record, wanted):
    """([(path, sha256)] of the wanted files, by name, in a package's list; a digest of the list).

    The digest leaves out what is made when a package is installed: it is the same everywhere.
    """
    found, digest = [], hashlib.sha256()
    with open(record, encoding="utf-8", newline="") as stream:
        for row in csv.reader(stream):
            path, sha256 = (row + ["", ""])[:2]
            if path.startswith("..") or path.endswith(".pyc") or ".dist-info/" in path:
                continue
            digest.update(("%s %s\n" % (path, sha256)).encode())
            if path in wanted:
                kind, _, value = sha256.partition("=")
                padded = value + "=" * (-len(value) % 4)
                hexadecimal = base64.urlsafe_b64decode(padded).hex() if kind == "sha256" else ""
                found.append((wanted[path], hexadecimal))
    return found, digest.hexdigest()[:DIGITS]


def is_other_code(path):
    """Whether Python takes, in place of a source file, a compiled one that is not of this code."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as stream:
            compiled = stream.read()
        with open(path, "rb") as stream:
            source = stream.read()
        about = os.stat(path)
    except (OSError, NotImplementedError):  # no such file, or a Python that keeps none
        return False
    taken = struct.pack("<III", 0, int(about.st_mtime) & 0xFFFFFFFF, len(source) & 0xFFFFFFFF)
    if compiled[4:8] == taken[:4] and compiled[8:16] != taken[4:]:
        return False  # Python sees that it is old
    try:
        return marshal.loads(compiled[16:]) != compile(source, path, "exec", dont_inherit=True)
    except (ValueError, EOFError, TypeError):
        return True


@functools.lru_cache(maxsize=None)
def python_sha256():
    """The sha256 of Python's own library, imported or not."""
    digest, top = hashlib.sha256(), os.path.realpath(sysconfig.get_path("stdlib"))
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(each for each in folders if each not in UNUSED)
        for name in sorted(each for each in names if each.endswith((".py", ".so"))):
            path = os.path.join(folder, name)
            digest.update(("%s %s\n" % (os.path.relpath(path, top), file_sha256(path))).encode())
    return digest.hexdigest()


class Hashes:
    """The sha256 of files; of large ones as it was, while nothing about them has changed.

    anew: large files are read again.
    """

    def __init__(self, anew=False):
        self._known, self._anew, self._changed = {}, anew, False
        try:
            with open(CACHE, encoding="utf-8") as stream:
                self._known = json.load(stream)
        except (OSError, ValueError):
            pass  # none yet, or half of one: all is read

    def sha256(self, path):
        """The file's sha256; "" where it cannot be read."""
        try:
            about = os.stat(path)
            if about.st_size <= LARGE:
                return file_sha256(path)
            key = [about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns]
            known = self._known.get(path)
            if self._anew or not known or known[0] != key:
                known = self._known[path] = [key, file_sha256(path)]
                self._changed = True
            return known[1]
        except OSError:
            return ""

    def save(self):
        """Keep what was read, where there is a folder for it."""
        if self._changed and os.path.isdir(os.path.dirname(os.path.dirname(CACHE))):
            try:
                files.write(CACHE, json.dumps(self._known))
            except OSError:
                pass  # read-only: the next repetition reads again


def together(ranks):
    """What a record says of all ranks: the lists of all; `sha256` of what each of them ran."""
    found = dict(ranks[0], packages={}, compiled=sum(each["compiled"] for each in ranks))
    for each in ranks:
        found["packages"].update(each["packages"])
    for key in ("altered", "strangers"):
        found[key] = sorted({path for each in ranks for path in each[key]})
    found["sha256"] = _digest([each["sha256"] for each in ranks])
    return found


def _facts(python, project, packages, altered, strangers, compiled):
    found = {
        "python": python,
        "project": project,
        "packages": packages,
        "altered": sorted(altered),
        "strangers": sorted(strangers),
    }
    return dict(found, sha256=_digest(found), compiled=compiled)


def _digest(document):
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _is_within(path, folders):
    return any(path.startswith(each.rstrip(os.sep) + os.sep) for each in folders)


def _package_folders():
    return [each for each in sys.path if os.path.basename(each) in PACKAGES]
