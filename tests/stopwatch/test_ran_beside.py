"""A repetition names the code that nobody vouches for, and an honest one has none."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SCRIPTS
from spot import called

from dlperf.contract import draws

OPTIONS = {
    **{"workload": "wide_deep", "device": "cpu", "vocabulary": 2600, "layers": 2, "batch-size": 8},
    **{"warmup-steps": 1, "measured-steps": 2, "timeout-seconds": 900},
}
#: What makes a page import a file from a folder beside the package, in ways that name it or not.
FALSE = {
    "by importlib": (
        "\nimport importlib.util\n"
        "spec = importlib.util.spec_from_file_location('faster', {path!r})\n"
        "faster = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(faster)\n",
        "importlib",
        None,
    ),
    "by the path": (
        "\nimport sys\nsys.path.append({folder!r})\nimport faster\ndel sys.modules['faster']\n",
        "sys.modules",
        "faster.py",
    ),
    "by another path": (
        "\nimport dlperf\ndlperf.__path__.append({folder!r})\nfrom dlperf import faster\n",
        None,
        "faster.py",
    ),
    "by its text": (
        "\nexec(compile(open({path!r}).read(), 'x', 'exec'))\n",
        "exec",
        None,
    ),
    "by a variable": (
        "\nfrom os import environ\nTIMED = 'DLPERF_MEETING' in environ\n",
        "os.environ",
        None,
    ),
}


def measured(scripts: Path, folder: Path, framework: str, *more: str, **options: Any) -> Any:
    """The record, or the spot run, of a small case."""
    folder.mkdir(exist_ok=True)
    case, out = folder / "case.json", folder / "out.json"
    words = [f"--{key}={value}" for key, value in {**OPTIONS, **options}.items()]
    case.write_text(called(SCRIPTS, "dlperf.measure", "case", f"--framework={framework}", *words))
    environment = f"--environment={ROOT}/results/environments/{framework}.cpu/env.json"
    called(scripts, "dlperf.measure", f"--case={case}", f"--out={out}", environment, *more)
    document = json.loads(out.read_text())
    assert document["status"] == "ok", document["reason"]
    return document


@pytest.mark.parametrize(
    "framework",
    [
        "mxnet",
        *(pytest.param(each, marks=pytest.mark.full) for each in ("pytorch", "jax", "tensorflow1")),
    ],
)
def test_honest_runs_of_a_case_import_the_same(environments, tmp_path, framework):
    draw = tmp_path / "draw.json"
    draws.write(draw, "test")
    spot = measured(SCRIPTS, tmp_path / "spot", framework, f"--draw={draw}", "--spot", devices=2)
    record = measured(SCRIPTS, tmp_path / "rep", framework, f"--draw={draw}", devices=2)
    for each in (spot, record):
        assert each["ran_beside"]["altered"] == each["ran_beside"]["strangers"] == []
        assert each["provenance"]["unexplained"] == []
        assert "numpy" in each["ran_beside"]["packages"]
    assert spot["ran_beside"]["sha256"] == record["ran_beside"]["sha256"]


@pytest.mark.parametrize(
    ("framework", "way"),
    [
        ("mxnet", "by another path"),
        *(
            pytest.param(framework, way, marks=pytest.mark.full)
            for framework in ("pytorch", "jax", "oneflow")
            for way in FALSE
        ),
    ],
)
def test_code_from_elsewhere_is_named(environments, tmp_path, framework, way):
    text, reached, stranger = FALSE[way]
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "faster.py"
    path.write_text("FASTER = True\n")
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    page = scripts / f"dlperf/workloads/wide_deep/{framework}.py"
    page.write_text(page.read_text() + text.format(path=str(path), folder=str(folder)))
    record = measured(scripts, tmp_path / "rep", framework)
    named = record["provenance"]["unexplained"]
    assert reached is None or any(each.endswith(reached) for each in named), named
    strangers = [Path(each).name for each in record["ran_beside"]["strangers"]]
    assert stranger is None or strangers == [stranger]
    assert named or strangers
