"""Disks that are full or may not be written: real ones, mounted for one command alone."""

import subprocess
from pathlib import Path

import pytest

FULL = 'mount -t tmpfs -o size=64k none "$0" && head -c 1M /dev/zero > "$0/fill" 2> /dev/null; '
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd . && '


def run(command: list[str], folder: Path, how: str, **options) -> subprocess.CompletedProcess[str]:
    """Run a command while `folder` is such a disk; skips where the system lets nobody mount."""
    inside = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if subprocess.run([*inside, "mount -t tmpfs none /mnt"], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a disk for one command")
    return subprocess.run(
        [*inside, f'{how}exec "$@"', str(folder), *command],
        text=True,
        capture_output=True,
        timeout=600,
        **options,
    )
