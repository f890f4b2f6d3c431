"""Packages import from those before them, never from those after: pyproject.toml has the order."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, SCRIPTS


def test_imports_go_one_way():
    environ = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
