"""Where each certificate of a round comes from: made before, released with the code, or to make.

The input is the paths of certificates (`Case.certificate`), and what is in results/certificates/
and certificates/. The output is a word for each, for the plan, and the released file that the
workflow copies.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dlperf.measure import code, record
from dlperf.plan.config import Config

ROOT = Path(__file__).resolve().parents[3]


def state(certificate: str, backend: str, results: Path, remake: bool = False) -> str:
    """'there', 'released' (taken from certificates/), or 'to make'.

    certificate: its path below results/. backend: what its framework's environment is made with.
    remake: whether what was released is made again.
    """
    document = read(results / certificate)
    was_released = document.get("provenance", {}).get("released", False)
    if document and not stale(document, backend) and not (remake and was_released):
        return "there"
    return "released" if released(certificate, backend, remake) else "to make"


def released(certificate: str, backend: str, remake: bool = False) -> str:
    """The path of the released certificate that the workflow takes; "" if it makes its own.

    The arguments are those of `state`. Only the backend venv applies the lock that a released one
    was made with; beside records of another environment it would be stale.
    """
    if remake or backend != "venv":
        return ""
    path = ROOT / certificate
    document = read(path)
    return str(path) if document and not differs(document) else ""


def backend_of(config: Config, framework: str, backend: str = "") -> str:
    """What makes a framework's environment: an interpreter of the config, the `backend` that the
    command line asks for, or the config's."""
    if framework in config.environments.interpreters:
        return "interpreter"
    return backend or config.environments.backend


def stale(document: Mapping[str, Any], backend: str) -> bool:
    """Whether a certificate is of other code or, where a lock is applied, of other packages."""
    other = differs(document)
    return bool(other) and (backend == "venv" or not other.startswith("the lock"))


def differs(document: Mapping[str, Any]) -> str:
    """What a certificate was made with that is not what is here; "" where it is the same."""
    workload, framework = document["workload"], document["framework"]
    provenance, reference = document["provenance"], document["provenance"]["reference"]
    if provenance.get("code_sha256") != _implementation(workload, framework):
        return "the implementation's code"
    if reference.get("code_sha256") != _reference(workload):
        return "the reference's code"
    if provenance.get("lock_sha256") != _lock(f"{framework}.{document['device']}"):
        return "the lock of its environment"
    if reference.get("lock_sha256") != _lock(f"pytorch.{document['device']}"):
        return "the lock of the reference's environment"
    return ""


def read(path: Path) -> dict[str, Any]:
    """A certificate's document; {} where there is none, or another one's."""
    try:
        document = json.loads(path.read_bytes())
        own = (document["workload"], document["framework"])
        document["provenance"]["reference"].get("code_sha256")
        return dict(document) if own == path.parts[-3:-1] else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


@cache
def _implementation(workload: str, framework: str) -> str:
    return code.sha256(code.of_implementation(workload, framework))


@cache
def _reference(workload: str) -> str:
    return code.sha256(code.of_reference(workload))


@cache
def _lock(environment: str) -> str:
    return record.file_sha256(ROOT / "envs" / f"{environment}.lock.txt")
