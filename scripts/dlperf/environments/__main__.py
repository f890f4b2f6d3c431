"""Make an environment, or renew the locks.

    python -m dlperf.environments build --framework pytorch --device cpu \\
        --yaml envs/pytorch.cpu.yaml --prefix results/environments/pytorch.cpu
    python -m dlperf.environments lock [--only pytorch.cpu] [--upgrade]

A build that fails writes env.json too, with the reason, and ends with status 0, so that a round
continues with the other frameworks; with --strict it ends with 1.
"""

import argparse
import signal
import sys
from pathlib import Path

from dlperf.contract import storage, terminal
from dlperf.environments import FILES, EnvironmentProblem
from dlperf.environments.build import Request, build, document
from dlperf.environments.commands import without_addresses
from dlperf.environments.disk import write
from dlperf.environments.lock import lock


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and do what it says; returns the exit status."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return asked.command(asked)
    except EnvironmentProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except OSError as error:  # such as a full disk, which cannot hold an env.json either
        print(f"error: {storage.message(error, asked.prefix)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _build(asked: argparse.Namespace) -> int:
    request = Request(
        framework=asked.framework,
        device=asked.device,
        yaml=Path(asked.yaml),
        lock=Path(asked.lock) if asked.lock else None,
        prefix=Path(asked.prefix),
        backend=asked.backend,
        interpreter=asked.interpreter,
        find_links=tuple(asked.find_links),
        distributed=asked.distributed,
    )
    out = Path(asked.out) if asked.out else request.prefix / "env.json"
    name = f"{request.framework}.{request.device}"
    try:
        made = build(request)
    except EnvironmentProblem as problem:
        reason = without_addresses(str(problem))
        write(document(request, "failed", reason), out)
        _say(f"error: {name}: {reason}")
        return 1 if asked.strict else 0
    write(made, out)
    for extra, reason in made["extras"].items():
        if reason:
            _say(f"warning: {name}: {extra}: {reason}")
    size = f"{made['size_bytes'] / 1e9:.1f} GB, " if made["size_bytes"] else ""
    print(f"{name}: {made['version']}, Python {made['python']}, {size}{made['seconds']} s -> {out}")
    return 0


def _say(message: str) -> None:
    """Print to the terminal, and to the log into which a rule redirects the standard output."""
    print(message, file=sys.stderr)
    if not sys.stdout.isatty():
        print(message)


def _lock(asked: argparse.Namespace) -> int:
    for name in lock(Path(asked.files), asked.only, asked.find_links, asked.upgrade):
        print(f"{name}.lock.txt", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.environments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="build|lock")
    make = commands.add_parser("build", help="make one environment and write its env.json")
    make.set_defaults(command=_build)
    make.add_argument("--framework", required=True)
    make.add_argument("--device", required=True, choices=("cpu", "cuda"))
    make.add_argument("--yaml", required=True, help="envs/<framework>.<device>.yaml")
    make.add_argument("--lock", default="", help="its lock, if it is not beside the YAML")
    make.add_argument("--prefix", required=True, help="the environment's folder")
    make.add_argument("--out", default="", help="the env.json, if it is not in that folder")
    make.add_argument(
        "--backend", choices=("venv", "conda", "container", "interpreter"), default="venv"
    )
    make.add_argument("--interpreter", default="", help="the Python of backend 'interpreter'")
    make.add_argument("--find-links", action="append", default=[], help="folder with wheels")
    make.add_argument(
        "--distributed", action="store_true", help="also build what runs on several devices need"
    )
    make.add_argument("--strict", action="store_true", help="end with 1 when the build fails")
    renew = commands.add_parser("lock", help="renew the locks from the YAML files")
    renew.set_defaults(command=_lock)
    renew.add_argument("--files", default=str(FILES), help="folder of the YAML files")
    renew.add_argument("--only", action="append", default=[], metavar="NAME")
    renew.add_argument("--find-links", action="append", default=[], help="folder with wheels")
    renew.add_argument(
        "--upgrade", action="store_true", help="use the newest versions that are allowed"
    )
    return parser


if __name__ == "__main__":
    terminal.as_utf8()
    sys.exit(main())
