"""Measure one repetition, with or without the workflow.

    PYTHONPATH=scripts python -m dlperf.measure --case case.json --out rep1.json

The ranks run under the interpreter that `--environment` names, or else under this one, which then
keeps the user's PYTHONPATH. `--case` takes a case document, a record (whose case is run again), the
JSON text itself, or `-`: standard input. `python -m dlperf.measure case` prints a document
(by_hand.py). Several nodes
need a `--launcher`, such as `srun --nodes=2 --ntasks=2`, that starts one process on each. A crash
gives a record too. The exit status is 0 when a record was written (with `--on-failure stop`: only
when its status is ok or unsupported), 1 for a mistake of the caller, and 130 or 143 when it was
stopped by a signal; then there is no record.
"""

import argparse
import os
import sys

from dlperf import frameworks
from dlperf.contract import draws, searched, storage, terminal
from dlperf.contract.case import CaseError, load
from dlperf.measure import bounds, by_hand, node, processes, record
from dlperf.measure.lock import held
from dlperf.workloads.cases import case_of, known


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["case"]:
        return by_hand.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.measure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", required=True, help="case document: a path, the JSON text, or -")
    parser.add_argument("--out", required=True, help="the record to write")
    parser.add_argument("--round", help="folder of a round, whose searches/ say the largest size")
    parser.add_argument("--environment", default="", help="env.json of the environment")
    parser.add_argument("--config-sha256", default="", help="sha256 of the round's config")
    parser.add_argument("--attempts", help="folder that keeps a copy of every record")
    parser.add_argument("--draw", help="the draw of the case's group, whose seeds are taken")
    parser.add_argument(
        "--spot", action="store_true", help="make the spot run of that draw: nothing is timed"
    )
    parser.add_argument(
        "--weights", help="folder for the weights behind the last test of the quality scenario"
    )
    parser.add_argument(
        "--checks",
        type=float,
        nargs=2,
        metavar=("SECONDS", "GIGABYTES"),
        help="keep no weights where a replay of that test would take more",
    )
    parser.add_argument("--lock", help="lock file, so that only one repetition runs on a node")
    parser.add_argument(
        "--launcher",
        default="",
        help="for several nodes: srun and its options, with {nodes}, {devices}, {cores}",
    )
    parser.add_argument("--interface", default="", help="network interface between ranks")
    parser.add_argument("--on-failure", choices=("record", "stop"), default="record")
    asked = parser.parse_args(arguments)
    try:
        source = _from_standard_input() if asked.case == "-" else asked.case
        case = load(source, known())
        _check_compiler(source, case["identity"])
        ended = None
        if asked.round and case["identity"]["searched"]:
            path = os.path.join(asked.round, searched.path_of(case_of(case["identity"])))
            search = searched.read(path)
            case = searched.sized(case, search["value"])
            ended = None if search["status"] == "ok" else (search["status"], search["reason"])
        draw = draws.read(asked.draw) if asked.draw else None
        if asked.spot and draw is None:
            raise CaseError("--spot: a spot run needs --draw, which says what is drawn for it")
    except ValueError as error:
        sys.exit("\n".join("error: " + line for line in str(error).splitlines()))
    if asked.environment and not os.path.exists(asked.environment):
        sys.exit("error: %s: no such file" % asked.environment)

    if asked.environment:
        node.nothing_else_to_import()
    processes.end_with_ranks()
    from dlperf.measure.stopwatch import measure

    with held(asked.lock):
        document = measure(
            case,
            asked.environment,
            asked.config_sha256,
            launcher=asked.launcher,
            interface=asked.interface,
            known=ended,
            draw=draw,
            spot=asked.spot,
            weights_dir=_weights_dir(asked, case),
        )
    try:
        record.write(document, asked.out, asked.attempts)
    except OSError as error:
        sys.exit("error: " + storage.message(error, asked.out))
    print(_summary(document, asked.out))
    if asked.on_failure == "stop" and document["status"] not in ("ok", "unsupported"):
        sys.exit(1)


def _weights_dir(asked, case):
    """Where ranks write weights; "": nowhere, as nobody would replay what they are asked."""
    own = case_of(case["identity"])
    if not asked.weights or (asked.checks and bounds.unreplayed(own, *asked.checks)):
        return ""
    return os.path.abspath(asked.weights)


def _from_standard_input():
    text = sys.stdin.read()
    if not text.lstrip().startswith("{"):  # else it would be taken for a path
        raise CaseError("--case -: no case document on standard input, but %r" % text[:60])
    return text


def _check_compiler(source, identity):
    """Raise CaseError for a compiler that the framework does not have; it would only fail late."""
    name = "--case" if source.lstrip().startswith("{") else source
    framework = frameworks.find(identity["framework"])
    if framework and identity["compiler"] not in framework.compilers:
        raise CaseError(
            "%s: identity.compiler: %r%s; %s has: %s"
            % (
                name,
                identity["compiler"],
                by_hand.meant(identity["compiler"], list(framework.compilers)),
                framework.title,
                ", ".join(framework.compilers),
            )
        )


def _summary(document, path):
    identity = document["identity"]
    name = "%s %s rep %d" % (identity["framework"], identity["workload"], identity["repetition"])
    if document["status"] != "ok":
        return "%s: %s: %s -> %s" % (name, document["status"], document["reason"], path)
    if "windows" in document:
        return "%s: spot run of %d windows -> %s" % (name, len(document["windows"]), path)
    start = min(window["start"] for window in document["window"])
    end = max(window["end"] for window in document["window"])
    speed = document["samples"] / (end - start)
    return "%s: %.2f %s/s -> %s" % (name, speed, document["unit"], path)


if __name__ == "__main__":
    terminal.as_utf8()
    main()
