"""Writes the manifest of a data set's folder; dlperf.loaders.manifest reads and checks it."""

import json
import os

from dlperf.contract.files import write
from dlperf.loaders.manifest import sha256_of_file, sha256_of_listing


def begin(folder):
    """Make the folder, without a manifest: it is incomplete until `finish` writes that."""
    os.makedirs(str(folder), exist_ok=True)
    path = os.path.join(str(folder), "manifest.json")
    if os.path.exists(path):
        os.unlink(path)


def listed(folder, names):
    """Entries of `files` for these files of the folder."""
    entries = []
    for name in names:
        path = os.path.join(str(folder), name)
        size = os.path.getsize(path)
        entries.append({"path": name, "sha256": sha256_of_file(path), "bytes": size})
    return entries


def finish(folder, dataset, files, **facts):
    """Write the manifest of the folder's files, as the last step and all at once; return it."""
    manifest = {"schema": "dlperf.data/1", "dataset": dataset}
    manifest.update(facts)
    manifest["bytes"] = sum(file["bytes"] for file in files)
    manifest["sha256"] = sha256_of_listing(files)
    manifest["files"] = files
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    write(os.path.join(str(folder), "manifest.json"), text)
    return manifest
