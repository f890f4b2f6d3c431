"""Search the largest size that fits, of one case.

    python -m dlperf.search --case DOCUMENT --out FILE --least 1 --most 65536 --granule 8 \\
                            --fine 1 --steps 4 --repetitions 2

DOCUMENT is a case document (path or JSON) whose identity says what is searched; its own size is not
used. A search that was stopped takes its tries from FILE.tries and goes on. The exit status is 0
when FILE was written, whatever was found; 1 for a mistake; 130 or 143 when a signal stopped it.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from dlperf.contract import files, searched, storage, strict_json, terminal
from dlperf.contract.case import CaseError, load
from dlperf.measure import code, host, node, processes, stopwatch
from dlperf.measure.lock import held
from dlperf.search.tries import Search, search
from dlperf.workloads.cases import known


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", required=True, help="case document: a path, or the JSON text")
    parser.add_argument("--out", required=True, type=Path, help="the search's document to write")
    for name in Search.__annotations__:
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--environment", default="", help="env.json of the environment")
    parser.add_argument("--config-sha256", default="", help="sha256 of the round's config")
    parser.add_argument("--lock", help="lock file, so that nothing else is measured on a node")
    parser.add_argument("--launcher", default="", help="for several nodes: srun and its options")
    parser.add_argument("--interface", default="", help="network interface between ranks")
    asked = parser.parse_args(arguments)
    how = Search(**{name: getattr(asked, name) for name in Search.__annotations__})
    try:
        case = load(asked.case, known())
        if not case["identity"]["searched"]:
            raise CaseError("--case: identity.searched is empty: nothing is searched")
    except CaseError as error:
        sys.exit("\n".join(f"error: {line}" for line in str(error).splitlines()))
    if asked.environment:
        node.nothing_else_to_import()
    processes.end_with_ranks()

    def measure(document: dict[str, Any]) -> dict[str, Any]:
        """A try, in processes of its own."""
        identity = document["identity"]
        size = identity[identity["searched"]]
        print(f"try: {identity['searched']} {size}", file=sys.stderr, flush=True)
        made = stopwatch.measure(
            document,
            asked.environment,
            asked.config_sha256,
            launcher=asked.launcher,
            interface=asked.interface,
        )
        print(f"  {made['status']} {made['reason']}", file=sys.stderr, flush=True)
        return made

    kept = asked.out.with_name(asked.out.name + ".tries")
    with held(asked.lock):
        if message := too_little_is_free(case):
            sys.exit(f"error: {message}")
        made_with = _made_with(case, asked.environment)
        found = search(searched.sized(case, how.least), how, kept, measure, made_with)
    try:
        files.write(asked.out, json.dumps(found, indent=1) + "\n")
    except OSError as error:
        sys.exit(f"error: {storage.message(error, str(asked.out))}")
    kept.unlink(missing_ok=True)
    print(f"{found['status']}: {found['value']} {found['reason']} -> {asked.out}")


def too_little_is_free(case: dict[str, Any]) -> str:
    """Why a search could make this machine swap now, or ""."""
    limit = case["settings"].get("memory_limit_bytes", 0) * case["identity"]["devices_per_node"]
    free = host.memory_bytes("MemAvailable")
    if case["identity"]["nodes"] > 1 or case["settings"]["device"] != "cpu" or limit <= free:
        return ""
    return (
        f"{stopwatch.gigabytes(limit)} of memory may be taken (memory_limit x devices), but only "
        f"{stopwatch.gigabytes(free)} are free on {host.name()}: end other programs, or lower "
        "memory_limit"
    )


def _made_with(case: dict[str, Any], environment: str) -> dict[str, str]:
    """What tries depend on beside the case: code, lock, and the machine."""
    built = strict_json.read(environment) if environment else {}
    identity = case["identity"]
    own = code.of_implementation(identity["workload"], identity["framework"])
    return {
        "code_sha256": code.sha256(own),
        "lock_sha256": code.applied_lock(built),
        "node": os.uname().nodename,
    }


if __name__ == "__main__":
    terminal.as_utf8()
    main()
