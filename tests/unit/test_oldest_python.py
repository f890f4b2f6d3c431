"""What runs under a framework's interpreter is written in the oldest one's Python."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf import workloads


def braces(pattern: str) -> list[str]:
    """The patterns that one with a {list,of,words} stands for; `**` for all files below."""
    pattern = pattern.replace("/**", "/**/*.py") if pattern.endswith("/**") else pattern
    found = re.search(r"\{(.*?)\}", pattern)
    words = found[1].split(",") if found else [""]
    return [pattern.replace(found[0], word) if found else pattern for word in words]


PACKAGE = ROOT / "scripts/dlperf"
#: What pyproject.toml says to be written so, of the package.
TARGETS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"][
    "per-file-target-version"
]
FILES = sorted(
    path
    for pattern, version in TARGETS.items()
    if version == "py37"
    for each in braces(pattern)
    for path in ROOT.glob(each)
    if path.suffix == ".py"
)
BESIDE = [path for path in FILES if PACKAGE in path.parents and path.parent.name != "certify"]
#: What reads a config beside the plan stands in contract too; no rank imports it.
CONFIG = [PACKAGE / "contract" / f"{name}.py" for name in ("choices", "problems", "written")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported_at_the_top(path: Path) -> set[str]:
    body = ast.parse(path.read_text()).body
    plain = [each.name for node in body if isinstance(node, ast.Import) for each in node.names]
    plain += [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    return {module.split(".")[0] for module in plain}


def needs_a_framework(path: Path) -> bool:
    pages = path.parent.name in (*workloads.NAMES, "encoders") or path.stem == "formulas"
    own = ("training", "inference", "phases", "sparse", "formats", "transformer", "adam", "lamb")
    own += ("adamw", "clip", "norms", "parallel", "foreach", "cpu", "split_head", "convolutions")
    own += ("layers",)
    reader = path.parent.name == "readers" and path.stem not in ("__init__", "files")
    return pages or reader or ("frameworks" in path.parts and path.stem in own)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_it_parses_as_python_3_7(path):
    ast.parse(path.read_text(), str(path), feature_version=(3, 7))


@pytest.mark.parametrize(
    "path",
    [path for path in BESIDE if path not in CONFIG and not needs_a_framework(path)],
    ids=name,
)
def test_the_plan_can_import_it_without_a_framework(path):
    allowed = set(sys.stdlib_module_names) | {"dlperf"}
    if "loaders" in path.parts or path.stem == "input":
        allowed.add("numpy")
    assert imported_at_the_top(path) <= allowed
