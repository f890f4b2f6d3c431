"""Makes the shards of a data set in parallel, and then the manifest that lists them.

The input is the number of shards and a function that writes one. A shard is moved into the folder
only when it is whole, and manifest.json is written last, so a call that was stopped can be resumed.
A shard's bytes depend only on its number and the settings, not on how many processes there are or
when one of them stopped.
"""

import ctypes
import functools
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from dlperf.contract import files
from dlperf.loaders.manifest import (
    SAMPLES,
    Digest,
    sha256_of_file,
    sha256_of_listing,
    sha256_of_shards,
)
from dlperf.prepare import formats

PR_SET_PDEATHSIG = 1  # of Linux's prctl

#: Writes a shard: (its number, its path) -> facts: `samples` and SAMPLES, and optionally `skipped`
#: and `repaired` (a reason -> the names of the samples, or only how many they are) and `counts`
#: (other numbers to add up; `tests`: samples that are not to train on).
Write = Callable[[int, Path], dict[str, Any]]


def make(
    out: Path,
    format: str,
    count: int,
    write: Write,
    fields: Sequence[str],
    settings: Mapping[str, Any],
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Write `count` shards into `out` with `jobs` processes, then manifest.json; return that.

    fields: the fields of a sample, in the order in which its digest takes them.
    settings: everything that the bytes depend on. They become part of the manifest. Shards that an
    earlier call with the same settings left are kept if their sha256 is unchanged. Files in the
    folder that the manifest does not list are left alone.
    """
    out.mkdir(parents=True, exist_ok=True)
    manifest_path = out / "manifest.json"
    manifest_path.unlink(missing_ok=True)  # until the end, the folder is incomplete
    kept = out / ".shards"
    kept.mkdir(exist_ok=True)
    for left in kept.glob("tmp*"):  # of a process that was killed
        shutil.rmtree(left)
    names = [formats.file_name(format, number, count) for number in range(count)]
    settings = {"format": format, "shards": count, "fields": list(fields), **settings}
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    facts = {name: found for name in names if (found := finished(out, kept, name, key))}
    progress(len(facts), count)
    one = functools.partial(make_one, out, kept, key, write)
    # Forked processes inherit the function and its data, such as an index of a million images.
    # Sending those with each shard would take longer than making most shards.
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, fork, initializer=_know, initargs=(one,)) as pool:
        waiting = {
            pool.submit(_one, number, name): name
            for number, name in enumerate(names)
            if name not in facts
        }
        try:
            for future in as_completed(waiting):
                facts[waiting[future]] = future.result()
                progress(len(facts), count)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    shards = [facts[name] for name in names]
    listed = [file for shard in shards for file in shard["files"]]
    counts = total(shards, "counts")
    manifest = {
        "schema": "dlperf.data/1",
        **settings,
        "samples": sum(shard["samples"] for shard in shards) - counts.get("tests", 0),
        SAMPLES: sha256_of_shards(shard[SAMPLES] for shard in shards),
        **counts,
        "skipped": total(shards, "skipped"),
        "repaired": total(shards, "repaired"),
        "problems": [problem for shard in shards for problem in problems(shard)],
        "bytes": sum(file["bytes"] for file in listed),
        "sha256": sha256_of_listing(listed),
        "files": listed,
    }
    files.write(manifest_path, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(kept)
    return manifest


def _know(one: Callable[[int, str], dict[str, Any]]) -> None:
    global _known
    _known = one
    # A parent that is killed cannot end its processes: they would wait for work forever.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _one(number: int, name: str) -> dict[str, Any]:
    return _known(number, name)


def make_one(
    out: Path, kept: Path, key: str, write: Write, number: int, name: str
) -> dict[str, Any]:
    """Write a shard in a folder of its own, move it, and note that it is finished."""
    with tempfile.TemporaryDirectory(dir=kept) as scratch:
        folder = Path(scratch)
        shard = write(number, folder / name)
        beside = sorted(path for path in folder.iterdir() if path.is_file())
        shard["files"] = [
            {"path": path.name, "bytes": path.stat().st_size, "sha256": sha256_of_file(path)}
            for path in beside
        ]
        for file in shard["files"]:
            if file["path"] == name:  # not an index beside it
                file["samples"] = shard["samples"]
        for path in sorted(folder.rglob("*")):
            target = out / path.relative_to(folder)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                os.rename(path, target)
    files.write(kept / f"{name}.json", json.dumps({"settings_sha256": key, **shard}))
    return shard


def finished(out: Path, kept: Path, name: str, key: str) -> dict[str, Any] | None:
    """The facts of a shard that was made with these settings and has not changed since, or None."""
    try:
        shard = json.loads((kept / f"{name}.json").read_text(encoding="utf-8"))
        whole = shard.pop("settings_sha256") == key and all(
            sha256_of_file(out / file["path"]) == file["sha256"] for file in shard["files"]
        )
    except (OSError, ValueError, KeyError):
        return None
    if "mended" in shard:  # its earlier name
        shard["repaired"] = shard.pop("mended")
    return shard if whole else None


def digest(folder: Path, manifest: Mapping[str, Any]) -> str:
    """The digest of the samples that the shards hold. Raises DataError as the format does."""
    format = formats.of(manifest["format"])
    found = []
    for file in manifest["files"]:
        if "samples" in file:
            shard = Digest()
            for sample in format.read(folder / file["path"]):
                shard.add(*(sample[field] for field in manifest["fields"]))
            found.append(shard.hex())
    return sha256_of_shards(found)


def total(shards: Iterable[Mapping[str, Any]], what: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for shard in shards:
        for reason, names in shard.get(what, {}).items():
            counts[reason] += names if isinstance(names, int) else len(names)
    return dict(sorted(counts.items()))


def problems(shard: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for what in ("skipped", "repaired"):
        for reason, names in sorted(shard.get(what, {}).items()):
            if not isinstance(names, int):
                yield from ({"sample": name, what: reason} for name in names)
