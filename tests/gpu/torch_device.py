"""Builds the null device (null_device/) for PyTorch's packages.

In: the environment of gpu_packages.PYTORCH, which has NVIDIA's headers, and a C++ compiler. Out:
one library that stands for CUDA's driver and runtime, cuBLAS, cuDNN and NCCL. It is named as the
driver is and loaded before all others, so all who look for one of them find it.

What PyTorch may call and the device does not answer is refused, and written down: nothing reaches
NVIDIA's own libraries, which would look for a card.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import gpu_packages

from dlperf.environments import EnvironmentProblem, disk

SOURCES = Path(__file__).resolve().parent / "null_device"
#: Where each of NVIDIA's functions is named, and the status with which it is refused.
STATUS = {"cuda": 801, "cu": 801, "cublas": 15, "cudnn": 3000, "nccl": 5}
#: PyTorch's libraries that call them.
CALLERS = ("c10_cuda", "torch_cuda", "torch_cuda_linalg", "torch_python", "caffe2_nvrtc")


def library(python: Path) -> Path:
    """The path of the null device's library, built where it is missing or its sources changed.

    Raises EnvironmentProblem.
    """
    folder = gpu_packages.PYTORCH.folder / "device"
    digest = hashlib.sha256()
    for path in (*sorted(SOURCES.rglob("*")), Path(__file__)):
        if path.is_file():
            digest.update(path.read_bytes())
    made, found = folder / "made.txt", folder / "libcuda.so.1"
    with disk.held(folder.with_suffix(".lock")):
        if not (made.exists() and made.read_text() == digest.hexdigest() and found.exists()):
            disk.remove(folder)
            folder.mkdir()
            _build(found, next(python.parent.parent.glob("lib/python3*/site-packages")))
            (folder / "libcuda.so").symlink_to(found.name)
            made.write_text(digest.hexdigest())
    return found


def _build(found: Path, packages: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler or not shutil.which("nm"):
        raise EnvironmentProblem("the null device needs a C++ compiler and nm: install g++")
    names = _called(packages)
    (found.parent / "unanswered.c").write_text(_refusals(names))
    # Triton's are the whole of CUDA's own
    headers = [f"nvidia/{name}/include" for name in ("cu13", "cudnn", "nccl")]
    headers.append("triton/backends/nvidia/include")
    command = [
        compiler,
        *("-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"),
        *(f"-I{each}" for each in (SOURCES, *(packages / each for each in headers))),
        *map(str, sorted(SOURCES.glob("*.cc"))),
        *("-x", "c", str(found.parent / "unanswered.c"), "-o", str(found), "-ldl"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise EnvironmentProblem(f"the null device does not build: {done.stderr[-3000:]}")


def _called(packages: Path) -> set[str]:
    """What PyTorch's libraries take from NVIDIA's, and all functions of the driver."""
    libraries = [packages / f"torch/lib/lib{name}.so" for name in CALLERS]
    command = ["nm", "-D", "--undefined-only", *map(str, filter(Path.exists, libraries))]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    called = re.findall(r" U ((?:cuda|cu(?=[A-Z])(?!File)|cublas|cudnn|nccl)\w+)", listed)
    header = (packages / "triton/backends/nvidia/include/cuda.h").read_text()
    declared = re.findall(r"CUresult CUDAAPI (cu[A-Z]\w+)\(", header)
    versions = re.findall(r"#define (cu[A-Z]\w+) +(?:__CUDA_API_PT\w+\()?(cu[A-Z]\w+)", header)
    return {*called, *declared, *(name for pair in versions for name in pair)}


def _refusals(names: set[str]) -> str:
    """A weak function of each name, for which the device's own stands in where it has one."""
    lines = ["int null_device_unanswered(const char*, int);"]
    for name in sorted(names):
        prefix = re.match(r"cuda|cublas|cudnn|nccl|cu", name)
        status = STATUS[prefix[0]] if prefix else 1
        lines.append(
            f'__attribute__((weak)) int {name}(void) {{ return null_device_unanswered("{name}", '
            f"{status}); }}"
        )
    return "\n".join(lines) + "\n"
