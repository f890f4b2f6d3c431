"""The reference of time to quality with a choice of that scenario, such as mixed images.

    PYTHONPATH=scripts <a Python with PyTorch> -m dlperf.certify.chosen --workload resnet50 \\
        --variant mixup1-quality --data-dir results/data/sample --out FOLDER

In and out: as of reference.py, whose code is in the hash of every certificate. It knows that
scenario as the variant `quality` alone; here it makes that, of the model and batches that the
choice asks for.
"""

import argparse
import json
import os

from dlperf import workloads
from dlperf.certify import KEPT_MEMORY, reference
from dlperf.measure import code


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m dlperf.certify.chosen")
    parser.add_argument("--workload", choices=workloads.NAMES, required=True)
    parser.add_argument("--variant", required=True, help="such as mixup1-quality")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", required=True, help="the folder to write")
    parser.add_argument("--environment", help="env.json whose interpreter has PyTorch")
    parser.add_argument("--lock-sha256", default="", help="of the lock that PyTorch comes from")
    asked = parser.parse_args(arguments)
    os.makedirs(asked.out, exist_ok=True)
    if asked.environment:
        run_in(asked)
    else:
        reference.write_manifest(asked.out, made(asked))


def made(asked):
    """What the manifest says; the arrays are written."""
    variant, asked.variant = asked.variant, workloads.scenario_of(asked.variant)
    asked.dimensions = workloads.certified(asked.workload, variant)
    asked.rates = workloads.dropout_rates(asked.workload, asked.dimensions)
    proof = workloads.proof(asked.workload)
    with workloads.settings(asked.workload, proof.in_certificates):
        return dict(reference.make(asked, proof), variant=variant)


def run_in(asked):
    """Become the same command under the environment's interpreter."""
    with open(asked.environment, encoding="utf-8") as stream:
        environment = json.load(stream)
    if environment["status"] != "ok":  # the round goes on; its certificates say why they fail
        reason = f"no reference without PyTorch's environment: {environment['reason']}"
        failed = {"status": "failed", "reason": reason, "provenance": {}}
        reference.write_manifest(asked.out, failed)
        return
    command = [environment["interpreter"], "-m", "dlperf.certify.chosen"]
    command.append("--lock-sha256=" + code.applied_lock(environment))
    for key in ("workload", "variant", "data_dir", "out"):
        command.append(f"--{key.replace('_', '-')}={getattr(asked, key)}")
    os.execve(command[0], command, dict(os.environ, **KEPT_MEMORY, **environment["environ"]))


if __name__ == "__main__":
    main()
