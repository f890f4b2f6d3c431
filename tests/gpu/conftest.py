"""The Python that compiles for a GPU without one, and steps that it compiles, each once."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import xla_packages
import xla_steps

from dlperf.environments import EnvironmentProblem


@pytest.fixture(scope="session")
def compiler(request) -> Path:
    """Where packages cannot be had: a failure where CI=true, else the tests are skipped."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # it says what it downloads before it does
            return xla_packages.python()
    except EnvironmentProblem as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(str(problem))
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def compiled(compiler) -> Callable[[xla_steps.Step], xla_steps.Compiled]:
    """A step's program, of which a session compiles each once."""
    there: dict[str, xla_steps.Compiled] = {}

    def compiled_once(step: xla_steps.Step) -> xla_steps.Compiled:
        name = json.dumps(asdict(step), sort_keys=True)
        if name not in there:
            there[name] = xla_steps.compiled(step, compiler)
        return there[name]

    return compiled_once
