"""`python -m dlperf.plan show|tsv|config|schema`: the plan of a round, for people and for files."""

import argparse
import os
import sys
from pathlib import Path

from dlperf.contract import storage, terminal
from dlperf.contract.problems import ConfigError
from dlperf.plan import schema
from dlperf.plan.cases import expand
from dlperf.plan.files import write_config
from dlperf.plan.here import problems_here
from dlperf.plan.read import load
from dlperf.plan.show import show, tsv


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlperf.plan", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("show", "print every case with its state, and how long the round will take"),
        ("tsv", "print the plan as TSV, with a row for each repetition"),
        ("config", "write the complete config to results/<round>/config.yaml"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        text = "the round's YAML file; of several, later ones are merged over earlier ones"
        usual = [Path("config/config.yaml")]
        command.add_argument("--config", type=Path, nargs="+", default=usual, help=text)
        command.add_argument("--results", type=Path, default=Path("results"))
        if name == "show":
            text = "what makes environments, in place of the config's (Snakemake's --sdm conda)"
            command.add_argument("--backend", choices=("venv", "conda"), default="", help=text)
            text = "certificates that come with the code are made again"
            command.add_argument("--remake", action="store_true", help=text)
    text = "write config/schema.json and the table of keys in config/README.md"
    command = commands.add_parser("schema", help=text, description=text)
    command.add_argument("--folder", type=Path, default=Path("config"))
    asked = parser.parse_args(arguments)

    if asked.command == "schema":
        for path in schema.write(asked.folder):
            print(f"wrote {path}")
        return 0
    try:
        config = load(asked.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    if asked.command == "config":
        write_config(config, asked.results)
    elif asked.command == "tsv":
        print(tsv(config, expand(config)), end="")
    else:
        print(show(config, expand(config), asked.results, asked.backend, asked.remake))
        for problem in problems_here(config, len(os.sched_getaffinity(0))):
            print(f"Not on this machine: {problem}")
    return 0


if __name__ == "__main__":
    terminal.as_utf8()
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # such as `... | head`, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: {storage.message(error, 'the plan')}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
