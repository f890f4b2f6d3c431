"""What a page reaches for outside of what it is given is named, unless there is a reason for it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SCRIPTS

from dlperf import frameworks, workloads
from dlperf.measure import code, reached

PAIRS = [
    (workload, framework)
    for workload in workloads.NAMES
    for framework in frameworks.NAMES
    if (SCRIPTS / f"dlperf/workloads/{workload}/{framework}.py").exists()
]


@pytest.mark.parametrize(("workload", "framework"), PAIRS)
def test_no_page_reaches_for_more_than_it_says(workload: str, framework: str) -> None:
    assert reached.unexplained(workload, framework) == []


def test_every_reason_is_for_something() -> None:
    for framework in frameworks.NAMES:
        named = {
            f"{path}: {word}"
            for workload, own in PAIRS
            if own == framework
            for path in reached.pages(workload, framework)
            for word in reached.words(path)
        }
        assert set(frameworks.of(framework).reaches) <= named


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("import os; os.environ['X']", "os.environ"),
        ("import os; os.environ.get('X')", "os.environ"),
        ("from os import environ", "os.environ"),
        ("from os import getenv as g", "os.getenv"),
        ("import os as o", "os as o"),
        ("import os; p = os; p.environ", "environ"),
        ("import os; getattr(os, 'env' + 'iron')", "getattr(os)"),
        ("import numpy as np; np.os.environ", "os.environ"),
        ("from os import *", "from os import *"),
        ("open('/proc/self/environ').read()", "open"),
        ("o = open; o('x')", "open"),
        ("import io; io.open('x')", "io.open"),
        ("import os; os.open('x', 0)", "os.open"),
        ("from pathlib import Path; Path('x').read_text()", "pathlib"),
        ("import numpy as np; np.load('x')", "load"),
        ("import numpy as np; np.fromfile('x')", "fromfile"),
        ("import torch; torch.load('x')", "load"),
        ("import tensorflow as tf; tf.io.read_file('x')", "read_file"),
        ("import subprocess", "subprocess"),
        ("import importlib", "importlib"),
        ("__import__('os')", "__import__"),
        ("exec('1')", "exec"),
        ("import ctypes", "ctypes"),
        ("import sys; sys.modules", "sys.modules"),
        ("import sys; sys.argv", "sys.argv"),
        ("import sys; sys._getframe(1).f_back", "sys._getframe"),
        ("import inspect; inspect.stack()", "inspect"),
        ("import gc; gc.get_objects()", "gc"),
        ("len.__self__.__globals__", "__globals__"),
        ("import socket", "socket"),
        ("work.batches.tests()", "batches.tests"),
    ],
)
def test_what_a_page_could_find_out_by_is_named(
    line: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.py").write_text(line + "\n")
    monkeypatch.setattr(code, "PACKAGE", str(tmp_path))
    assert word in reached.words.__wrapped__("page.py")


@pytest.mark.parametrize(
    "line",
    ["import os; os.path.join('a')", "model.load(x)", "import sys; sys.maxsize", "self.open = 1"],
)
def test_what_pages_are_written_with_is_not(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.py").write_text(line + "\n")
    monkeypatch.setattr(code, "PACKAGE", str(tmp_path))
    assert reached.words.__wrapped__("page.py") == []


def test_a_helper_of_a_page_is_looked_at_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "dlperf"
    shutil.copytree(SCRIPTS / "dlperf", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "workloads/resnet50/helper.py").write_text("import os\nLARGE = os.environ['X']\n")
    page = copy / "workloads/resnet50/pytorch.py"
    page.write_text(page.read_text() + "\nfrom dlperf.workloads.resnet50 import helper\n")
    asked = "import sys; from dlperf.measure import reached; "
    asked += "print(*reached.unexplained('resnet50', 'pytorch'), sep='|')"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "workloads/resnet50/helper.py: os.environ"
