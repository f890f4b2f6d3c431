"""What runs under a framework's interpreter is written in the oldest one's Python."""

import ast
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from dlperf import workloads

PACKAGE = ROOT / "scripts/dlperf"
DATA = (
    "batches",
    "clicks",
    "examples",
    "loaders",
    "manifest",
    "native",
    "photos",
    "prefetch",
    "rows",
    "squad",
    "text",
)
PACKAGES = ("contract", "measure", "frameworks", "scenarios", "workloads")
NEWER = [PACKAGE / "contract" / f"{name}.py" for name in ("choices", "problems", "written")]
FILES = [path for folder in PACKAGES for path in sorted((PACKAGE / folder).rglob("*.py"))]
FILES = [path for path in FILES if path not in NEWER]
FILES += [
    PACKAGE / "__init__.py",
    PACKAGE / "data/__init__.py",
    *(PACKAGE / "data" / f"{name}.py" for name in DATA),
    *(PACKAGE / "data" / "readers" / f"{name}.py" for name in ("__init__", "files")),
]
OWN = [PACKAGE / "data" / f"{name}.py" for name in ("read",)]
OWN += [path for path in sorted((PACKAGE / "data/readers").glob("*.py")) if path not in FILES]
CERTIFY = [PACKAGE / "certify" / f"{name}.py" for name in ("__init__", "rank", "reference")]


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def imported_at_the_top(path: Path) -> set[str]:
    body = ast.parse(path.read_text()).body
    plain = [each.name for node in body if isinstance(node, ast.Import) for each in node.names]
    plain += [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    return {module.split(".")[0] for module in plain}


def needs_a_framework(path: Path) -> bool:
    pages = path.parent.name in workloads.NAMES
    own = ("training", "inference", "sparse", "formats", "transformer", "adam", "lamb")
    own += ("adamw", "clip", "norms")
    return pages or ("frameworks" in path.parts and path.stem in own)


@pytest.mark.parametrize("path", FILES + OWN + CERTIFY, ids=name)
def test_it_parses_as_python_3_7(path):
    ast.parse(path.read_text(), str(path), feature_version=(3, 7))


@pytest.mark.parametrize("path", [path for path in FILES if not needs_a_framework(path)], ids=name)
def test_the_plan_can_import_it_without_a_framework(path):
    allowed = set(sys.stdlib_module_names) | {"dlperf"}
    if "data" in path.parts:
        allowed.add("numpy")
    assert imported_at_the_top(path) <= allowed
