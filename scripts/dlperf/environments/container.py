"""A framework in a container: its image, and a script that starts the image's Python.

The input is the image that an environment's YAML names, as Apptainer writes it (`docker://…`,
`oras://…`, or the path of a .sif). The output is a folder with `image.sif` and the shell script
`python`. Everything else uses this script like any other interpreter: one repetition by hand,
several nodes, certificates.
"""

import os
import shlex
import shutil
from pathlib import Path

from dlperf.contract import files
from dlperf.environments import FILES, EnvironmentProblem
from dlperf.environments.commands import CommandFailed, explain, run
from dlperf.environments.files import sha256

ENGINES = ("apptainer", "singularity")

#: PYTHONPATH is passed on so that our modules come before those of an image that sets it. The
#: mounts are the folders of this package, of the call, and of temporary files. A site's own mounts
#: come from APPTAINER_BIND.
SCRIPT = """#!/bin/sh
# Python in a container, as if it were here. Written by dlperf.environments.
export DLPERF_PYTHONPATH="$PYTHONPATH" PYTHONNOUSERSITE=1
exec {engine} exec {options}--bind {root} --bind "$PWD" --bind "${{TMPDIR:-/tmp}}" --pwd "$PWD" \\
    {image} \\
    sh -c 'PYTHONPATH="$DLPERF_PYTHONPATH${{PYTHONPATH:+:$PYTHONPATH}}" exec python3 "$@"' \\
    python3 "$@"
"""


def engine() -> str:
    """The path of Apptainer or Singularity. Raises EnvironmentProblem if there is neither."""
    found = [path for path in map(shutil.which, ENGINES) if path]
    if not found:
        raise EnvironmentProblem(
            "container: neither apptainer nor singularity is on PATH; load the site's module, or "
            "name a Python inside the container that you work in: environments: interpreters"
        )
    return found[0]


def fetch(image: str, folder: Path, descriptor: int) -> tuple[Path, str]:
    """The image as a file, and its SHA-256. It is pulled once; an existing file is not moved."""
    if "://" not in image:
        path = Path(os.path.expanduser(image))
        if not path.is_file():
            raise EnvironmentProblem(f"container: {image}: there is no such file")
        return path.resolve(), sha256(path)
    name, pulled = folder / "image.txt", folder / "image.sif"
    if (
        not pulled.is_file()
        or not name.is_file()
        or name.read_text(encoding="utf-8").strip() != image
    ):
        name.unlink(missing_ok=True)  # until it is written again, the image is incomplete
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run([engine(), "pull", "--force", str(pulled), image], keep_open=[descriptor])
        except CommandFailed as error:
            raise EnvironmentProblem(f"container: {image}: {explain(str(error))}") from None
        files.write(name, image + "\n")
    return pulled.resolve(), sha256(pulled)


def python(path: Path, folder: Path, device: str) -> Path:
    """Write the script that starts the Python of the image at `path`."""
    script = folder / "python"
    text = SCRIPT.format(
        engine=shlex.quote(engine()),
        options="--nv " if device == "cuda" else "",
        root=shlex.quote(str(FILES.parent)),
        image=shlex.quote(str(path)),
    )
    files.write(script, text)
    script.chmod(0o755)
    return script
