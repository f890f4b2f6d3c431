"""The list of the analysis' steps: its functions exist and take its options, and it is cheap."""

import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlperf.analysis import steps

SCRIPTS = Path(__file__).parents[3] / "scripts"
LIBRARIES = {"pandas", "numpy", "matplotlib", "scipy", "jinja2", "jsonschema_rs"}


@pytest.mark.parametrize("step", steps.STEPS.values(), ids=steps.STEPS)
def test_a_step_has_a_function_that_takes_its_options(step):
    function = pkgutil.resolve_name(f"dlperf.analysis.{step.function}")
    given = [option for option in step.options if option.given]
    inspect.signature(function).bind(*given)


def test_what_a_step_reads_was_raw_or_is_written_by_an_earlier_one():
    raw = {"config.yaml", "peaks.yaml"}
    written = set(raw)
    for step in (*steps.TO_CELLS, steps.TABLE, steps.MARKDOWN, steps.FIGURE, steps.REPORT):
        read = {option.path for option in step.options if option.role == steps.INPUT}
        assert read <= written, step.name
        written |= {option.path for option in step.options if option.role == steps.OUTPUT}


def test_a_round_has_the_files_of_its_cases():
    assert "limits" not in steps.CELLS.inputs("results/imported-x", ())
    assert "--limits" not in steps.CELLS.command(())
    assert set(steps.MERGE.outputs("results/imported-x", ())) == {
        *("measurements", "parity", "certificates", "checks", "sums")
    }
    assert steps.MERGE.params("results/a", ()) == {"runs": "results/a/runs", "shared": "results"}


def test_a_workflow_that_is_parsed_loads_no_library_of_the_steps():
    code = "import sys; from dlperf.analysis import steps; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SCRIPTS)}, capture_output=True
    )
    loaded = done.stdout.decode().split()
    assert "dlperf.analysis.steps" in loaded, done.stderr
    assert not LIBRARIES & {*loaded}
