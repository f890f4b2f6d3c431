"""Certificates that come with the code, so that not every machine has to make them.

    PYTHONPATH=scripts python -m dlperf.certify.released --config config/rounds/released.yaml

Copies those of that round from results/certificates/ into certificates/, and removes all others
there; docs/certificates.md then says what they measured. A workflow takes one where its hashes are
those of this very code and of the locks in envs/.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dlperf import plan
from dlperf.certify import check, summary
from dlperf.contract import files, strict_json, terminal
from dlperf.measure import code, record

ROOT = Path(__file__).resolve().parents[3]


class EditedCertificate(Exception):
    """A certificate in certificates/ that says what none of this code can; how to get it back."""


def find(certificate: str) -> str:
    """The path of a released one; "" where there is none, or where it is of other code or packages.

    certificate: its path below results/ (`Case.certificate`). Raises EditedCertificate where its
    hashes are those of this code, and what it says contradicts itself or this code.
    """
    path = ROOT / certificate
    try:
        document = strict_json.read(path)
        if differs(document):
            return ""
        problems = check.problems(document)
    except OSError:
        return ""
    except (ValueError, LookupError, TypeError) as error:
        problems = [f"is no certificate: {error!r}"]
    if problems:
        fix = f"put it back: git checkout -- {certificate}"
        raise EditedCertificate("\n".join(f"{certificate}: {each}" for each in (*problems, fix)))
    return str(path)


def differs(document: Mapping[str, Any]) -> str:
    """What a certificate was made with that is not what is here; "" where it is the same."""
    workload, framework = document["workload"], document["framework"]
    provenance, reference = document["provenance"], document["provenance"]["reference"]
    if provenance["code_sha256"] != _implementation(workload, framework):
        return "the implementation's code"
    if provenance["lock_sha256"] != _lock(f"{framework}.{document['device']}"):
        return "the lock of its environment"
    if reference.get("code_sha256") != _reference(workload):
        return "the reference's code"
    if reference.get("lock_sha256") != _lock(f"pytorch.{document['device']}"):
        return "the lock of the reference's environment"
    return ""


@cache
def _implementation(workload: str, framework: str) -> str:
    return code.sha256(code.of_implementation(workload, framework))


@cache
def _reference(workload: str) -> str:
    return code.sha256(code.of_reference(workload))


@cache
def _lock(environment: str) -> str:
    return record.file_sha256(ROOT / "envs" / f"{environment}.lock.txt")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.certify.released",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", required=True, help="the round whose certificates to release")
    parser.add_argument("--shared", default="results", help="(default: %(default)s)")
    asked = parser.parse_args(arguments)
    config = plan.load(asked.config)
    wanted = sorted(
        {case.certificate(config.device) for case in plan.expand(config) if not case.unsupported}
    )
    problems, documents = [], {}
    for each in wanted:
        path = Path(asked.shared, each)
        try:
            documents[each] = strict_json.read(path)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}: make it first (make certificates)")
            continue
        if not documents[each]["passed"]:
            problems.append(f"{path}: did not pass")
        elif other := differs(documents[each]):
            problems.append(f"{path}: was made with another version of {other}")
        else:
            problems += [f"{path}: {each}" for each in check.problems(documents[each])]
    if problems:
        sys.exit("\n".join(problems))
    for old in (ROOT / "certificates").rglob("*.json"):
        if str(old.relative_to(ROOT)) not in wanted:
            old.unlink()
    for each, document in documents.items():
        document["provenance"]["released"] = True
        files.write_if_changed(ROOT / each, json.dumps(document, indent=1) + "\n")
    summary.write()
    print(f"{len(documents)} certificates -> certificates/, {summary.DOCUMENT}")


if __name__ == "__main__":
    terminal.as_utf8()
    main()
