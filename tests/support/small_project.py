"""A wheel, its YAML and its lock: an environment that is built within a second, from no index."""

import base64
import hashlib
import json
import zipfile
from pathlib import Path

from dlperf.environments import files
from dlperf.environments.__main__ import main


class Project:
    """A folder with a wheel of `tiny`, its YAML and lock, and a place for environments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels, self.envs = folder / "wheels", folder / "envs"
        self.prefix = folder / "results/environments/tiny.cpu"
        self.out = self.prefix / "env.json"
        self.wheels.mkdir()
        self.envs.mkdir()
        self.define("1.0")

    def define(self, version: str, source: str = "__version__ = '{version}'\n") -> None:
        wheel = make_wheel(self.wheels, version, source.format(version=version))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.write_lock(version, digest)
        self.write_yaml(version)

    def write_yaml(self, version: str, python: str = "3.11") -> None:
        (self.envs / "tiny.cpu.yaml").write_text(
            f"name: tiny\nchannels: [conda-forge]\ndependencies:\n  - python={python}\n  - pip\n"
            f"  - pip:\n      - tiny=={version}\n      {files.FOLLOWS}\n"
        )

    def write_lock(self, version: str, digest: str) -> None:
        lock = self.envs / "tiny.cpu.lock.txt"
        lock.write_text(f"tiny=={version} \\\n    --hash=sha256:{digest}\n")

    def arguments(self, *more: str) -> list[str]:
        given = {
            "--framework": "tiny",
            "--device": "cpu",
            "--yaml": self.envs / "tiny.cpu.yaml",
            "--prefix": self.prefix,
            "--find-links": self.wheels,
        }
        return ["build", *(str(word) for pair in given.items() for word in pair), *more]

    def build(self, *more: str) -> dict:
        """Build through the command line; returns env.json."""
        assert main(self.arguments(*more)) == 0
        return json.loads(self.out.read_text())


def make_wheel(folder: Path, version: str, source: str) -> Path:
    path = folder / f"tiny-{version}-py3-none-any.whl"
    info = f"tiny-{version}.dist-info"
    content = {
        "tiny.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for name, text in content.items()
    }
    record = "".join(f"{name},sha256={digest},\n" for name, digest in digests.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**content, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def small_project(tmp_path, monkeypatch) -> Project:
    """A Project in `tmp_path`, which becomes the working directory, without the user's settings."""
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)
