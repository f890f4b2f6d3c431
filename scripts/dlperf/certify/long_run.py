"""The reference's own long runs on a certificate's batches, beside which slow damage would show.

    PYTHONPATH=scripts python -m dlperf.certify.long_run --workload resnet50 \\
        --environment results/environments/pytorch.cpu/env.json --data-dir results/data/sample \\
        --out results/certificates/resnet50/reference/long.json

Out: the mean losses of LONG_STEPS steps in float32, from the neutral weights and from others that
are one rounding off: where a network is chaotic, rounding leads as far as other batches do. Only
certificates of mixed precision or a compiler have such a run, so these stand beside their reference
and not in it.
"""

import argparse
import json

import numpy as np

from dlperf import workloads
from dlperf.certify import LONG_STEPS
from dlperf.certify.formulas import run_in
from dlperf.certify.reference import long_run, neutral, provenance
from dlperf.contract import files

SCHEMA = "dlperf.long-run/1"
RUNS = 3
MODULE = "dlperf.certify.long_run"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m " + MODULE)
    parser.add_argument("--workload", choices=workloads.NAMES, required=True)
    parser.add_argument("--variant", default="", help="such as clip0")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--environment", help="env.json whose interpreter has PyTorch")
    parser.add_argument("--lock-sha256", default="", help="of the lock that PyTorch comes from")
    parser.add_argument("--out", required=True)
    asked = parser.parse_args(arguments)
    if asked.environment:
        run_in(asked, arguments, MODULE, SCHEMA)
    proof = workloads.proof(asked.workload)
    asked.scenario = workloads.scenario_of(asked.variant)
    asked.dimensions = workloads.certified(asked.workload, asked.variant)
    with workloads.settings(asked.workload, proof.in_certificates):
        start = neutral(asked.workload, asked.dimensions)
        losses = [long_run(asked, rounded(start, seed), proof.seed) for seed in range(RUNS)]
    own = {"status": "ok", "workload": asked.workload, "variant": asked.variant}
    own.update(schema=SCHEMA, steps=LONG_STEPS, mean_losses=losses)
    own["provenance"] = provenance(asked.workload, asked.lock_sha256)
    files.write(asked.out, json.dumps(own, indent=1) + "\n")


def rounded(weights, seed):
    """Weights whose last bit has moved up or down at random; of seed 0 the weights themselves."""
    if not seed:
        return weights
    random = np.random.RandomState(seed)
    return {
        name: np.nextafter(each, random.choice([-np.inf, np.inf], each.shape).astype(np.float32))
        for name, each in weights.items()
    }


if __name__ == "__main__":
    main()
