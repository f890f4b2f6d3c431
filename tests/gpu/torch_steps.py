"""Steps of PyTorch's pages on the null device, and what comes of them.

In: a gpu_steps.Step. Out: its Driven, made by torch_step.py in processes of their own.
"""

import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch_device
from gpu_packages import PYTORCH
from gpu_steps import Step
from torch_log import Log

HERE = Path(__file__).resolve().parent


class DriveError(Exception):
    """A step that does not run; the text is the end of what was said."""


@dataclass(frozen=True)
class Driven:
    """What the device was told in a window of a step, and what the process says (facts.json)."""

    step: Step
    log: Log
    facts: Mapping[str, Any]

    @property
    def peak_bytes(self) -> int:
        """The allocator's peak in the window; with graphs what was taken from the device, as the
        allocator leaves out what graphs own."""
        return self.facts["device_bytes" if self.log.step.graphs else "peak_bytes"]


class Device:
    """A process of PyTorch that has the null device, and drives one step after the other.

    Raises EnvironmentProblem where the packages or the device cannot be had.
    """

    def __init__(self) -> None:
        python = PYTORCH.python()
        self._process = subprocess.Popen(
            [python, HERE / "torch_step.py"],
            env=environ(torch_device.library(python)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def drive(self, step: Step, folder: Path | None = None) -> Driven:
        """The step's log and facts, kept in the folder if there is one. Raises DriveError."""
        if folder is None:
            with tempfile.TemporaryDirectory() as made:
                return self.drive(step, Path(made))
        document = dict(asdict(step), batch_size=step.batch)
        (folder / "step.json").write_text(json.dumps(document))
        assert self._process.stdin and self._process.stdout
        print(folder, file=self._process.stdin, flush=True)
        if self._process.stdout.readline().strip() != str(folder):
            raise DriveError("the process with the null device ended; see what it printed")
        return read(folder, step)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def environ(library: Path) -> dict[str, str]:
    """Variables by which the null device stands before NVIDIA's libraries. What compilers keep is
    kept apart: kernels that were tuned on it are none to measure with."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {
        **kept,
        "LD_PRELOAD": str(library),
        "TRITON_LIBCUDA_PATH": str(library.parent),
        "TORCHINDUCTOR_CACHE_DIR": str(PYTORCH.folder / "inductor"),
        "CUDA_VISIBLE_DEVICES": "0",
    }


def read(folder: Path, step: Step) -> Driven:
    """What a drive wrote into a folder; the log may be compressed since.

    Raises DriveError if the step did not come to its end.
    """
    facts, packed = folder / "facts.json", folder / "log.txt.gz"
    if not facts.exists():
        raise DriveError((folder / "said.txt").read_text().strip()[-3000:])
    if packed.exists():
        text = gzip.decompress(packed.read_bytes()).decode()
    else:
        text = (folder / "log.txt").read_text()
    return Driven(step, Log(text), json.loads(facts.read_text()))
