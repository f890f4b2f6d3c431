"""Build a small local conda channel that holds what our YAML files ask of conda: python and pip.

    python make_channel.py CHANNEL PYTHON_PREFIX

`python` is packed from an interpreter of this machine, `pip` from its wheel.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from conda_package_handling import api

DROPPED = ("test", "tests", "__pycache__", "site-packages", "idlelib", "turtledemo", "config-*")


def main(channel: Path, prefix: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        pack_python(channel, prefix.resolve(), Path(work))
    with tempfile.TemporaryDirectory() as work:
        pack_pip(channel, Path(work))


def pack_python(channel: Path, prefix: Path, stage: Path) -> None:
    ask = [prefix / "bin/python3", "-c", "import platform; print(platform.python_version())"]
    version = subprocess.check_output(ask, text=True).strip()
    short = version.rpartition(".")[0]
    (stage / "bin").mkdir()
    (stage / "lib").mkdir()
    shutil.copy2(prefix / f"bin/python{short}", stage / f"bin/python{short}")
    for name in ("python", "python3"):
        (stage / "bin" / name).symlink_to(f"python{short}")
    library = f"lib/python{short}"
    ignore = shutil.ignore_patterns(*DROPPED, "lib2to3", "ensurepip")
    shutil.copytree(prefix / library, stage / library, ignore=ignore, symlinks=True)
    site = stage / library / "site-packages"
    site.mkdir()
    (site / "README.txt").write_text("site-packages\n")
    for shared in (prefix / "lib").glob(f"libpython{short}.so*"):
        shutil.copy2(shared, stage / "lib" / shared.name, follow_symlinks=False)
    if list((stage / "lib").glob("libpython*")):
        binary = stage / f"bin/python{short}"
        subprocess.check_call(["patchelf", "--set-rpath", "$ORIGIN/../lib", binary])
    shutil.copytree(prefix / f"include/python{short}", stage / f"include/python{short}")
    entry = described("python", version, "0_local", [], "linux-64")
    entry["python_site_packages_path"] = f"{library}/site-packages"
    write(stage, channel, entry, placeholder=str(prefix))


def pack_pip(channel: Path, work: Path) -> None:
    get = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    subprocess.check_call([*get, "-d", work, "pip"], stderr=subprocess.DEVNULL)
    wheel = next(work.glob("pip-*.whl"))
    stage = work / "stage"
    zipfile.ZipFile(wheel).extractall(stage / "site-packages")
    (stage / "info").mkdir()
    entry_points = ["pip = pip._internal.cli.main:main", "pip3 = pip._internal.cli.main:main"]
    link = {"noarch": {"type": "python", "entry_points": entry_points}}
    link["package_metadata_version"] = 1
    (stage / "info/link.json").write_text(json.dumps(link))
    entry = described("pip", wheel.name.split("-")[1], "py_0_local", ["python >=3.8"], "noarch")
    write(stage, channel, {**entry, "noarch": "python"})


def described(name: str, version: str, build: str, depends: list[str], subdir: str) -> dict:
    return {
        "name": name,
        "version": version,
        "build": build,
        "build_number": 0,
        "depends": depends,
        "license": "other",
        "timestamp": 1700000000000,
        "subdir": subdir,
        "arch": "x86_64" if subdir == "linux-64" else None,
        "platform": "linux" if subdir == "linux-64" else None,
    }


def write(stage: Path, channel: Path, entry: dict, placeholder: str = "") -> None:
    """Write the folder `stage` as the one .conda package of its subdir, and the subdir's index.

    Text files that name `placeholder` are rewritten by conda when they are installed.
    """
    info = stage / "info"
    info.mkdir(exist_ok=True)
    paths = []
    for path in sorted(stage.rglob("*")):
        name = path.relative_to(stage).as_posix()
        if path.is_relative_to(info) or (path.is_dir() and not path.is_symlink()):
            continue
        data = path.read_bytes()
        kind = "softlink" if path.is_symlink() else "hardlink"
        item = {"_path": name, "path_type": kind, "sha256": hashlib.sha256(data).hexdigest()}
        item["size_in_bytes"] = len(data)
        text = kind == "hardlink" and b"\0" not in data
        if placeholder and text and placeholder.encode() in data:
            item["prefix_placeholder"], item["file_mode"] = placeholder, "text"
        paths.append(item)
    prefixed = [item["_path"] for item in paths if "prefix_placeholder" in item]
    (info / "paths.json").write_text(json.dumps({"paths": paths, "paths_version": 1}))
    (info / "files").write_text("".join(f"{item['_path']}\n" for item in paths))
    (info / "has_prefix").write_text("".join(f'"{placeholder}" "text" "{n}"\n' for n in prefixed))
    (info / "index.json").write_text(json.dumps(entry))
    (info / "about.json").write_text("{}")
    found = (path for path in sorted(stage.rglob("*")) if path.is_symlink() or not path.is_dir())
    folder = channel / entry["subdir"]
    folder.mkdir(parents=True)
    name = f"{entry['name']}-{entry['version']}-{entry['build']}.conda"
    api.create(
        str(stage),
        [path.relative_to(stage).as_posix() for path in found],
        name,
        out_folder=str(folder),
        compression_tuple=(".tar.zst", "zstd", "zstd:compression-level=3"),
    )
    data = (folder / name).read_bytes()
    digests = {kind: hashlib.new(kind, data).hexdigest() for kind in ("md5", "sha256")}
    listed = {name: {**entry, **digests, "size": len(data)}}
    repodata = {"info": {"subdir": entry["subdir"]}, "packages": {}, "packages.conda": listed}
    (folder / "repodata.json").write_text(json.dumps(repodata))


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]))
