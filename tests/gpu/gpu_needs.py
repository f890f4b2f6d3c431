"""Packages for a GPU that a test needs, or why it has none."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from dlperf.environments import EnvironmentProblem

Found = TypeVar("Found")


def needed(request: pytest.FixtureRequest, find: Callable[[], Found]) -> Found:
    """What `find` gives. Where packages cannot be had: a failure where CI=true, else a skip."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # it says what it downloads before it does
            return find()
    except EnvironmentProblem as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(str(problem))
        pytest.skip(str(problem))
