"""Certificates that come with the code, so that not every machine has to make them.

    PYTHONPATH=scripts python -m dlperf.certify.released --config config/rounds/released.yaml

Copies those of that round from results/certificates/ into certificates/, and removes all others
there; docs/certificates-measured.md then says what they measured. `dlperf.plan.certificates` says
where a workflow takes one.
"""

import argparse
import json
import sys
from pathlib import Path

from dlperf import plan
from dlperf.certify import check, summary
from dlperf.contract import files, strict_json, terminal
from dlperf.plan.certificates import ROOT, differs, released


class EditedCertificate(Exception):
    """A certificate in certificates/ that says what none of this code can; how to get it back."""


def find(certificate: str, backend: str, remake: bool = False) -> str:
    """The path of the released certificate that the workflow takes; "" if it makes its own.

    The arguments are those of `plan.certificates.released`, which decides which one that is. Raises
    EditedCertificate where what it says contradicts itself or this code.
    """
    path = released(certificate, backend, remake)
    if not path:
        return ""
    try:
        problems = check.problems(strict_json.read(path))
    except (ValueError, LookupError, TypeError) as error:
        problems = [f"is no certificate: {error!r}"]
    if problems:
        fix = f"put it back: git checkout -- {certificate}"
        raise EditedCertificate("\n".join(f"{certificate}: {each}" for each in (*problems, fix)))
    return path


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
