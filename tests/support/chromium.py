"""One Chromium for all tests of pages: conftest.py makes its fixture known to them."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
COMMANDS = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    return next((path for name in COMMANDS if (path := shutil.which(name))), None)


def install() -> str:
    """Install Debian's Chromium if this user may; returns what went wrong, or ""."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "no Chromium here, and no right to install one: apt-get install chromium"
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", *command], capture_output=True, text=True, timeout=600)
    return "" if done.returncode == 0 else f"apt-get install chromium: {done.stderr[-500:]}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. Without one: a failure where CI=true, else the tests are skipped."""
    problem = "" if find() else install()
    path = find()
    if not path:
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()
