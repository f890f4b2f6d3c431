"""The reference's formulas as programs of this package take them to replay something.

On a device that is chosen, in a round's environment of PyTorch. Importing it needs none: PyTorch is
imported where something is computed.
"""

import dataclasses
import json
import os
import sys

from dlperf import workloads
from dlperf.certify import KEPT_MEMORY
from dlperf.certify.reference import Plain
from dlperf.contract import files
from dlperf.contract.run import Input
from dlperf.measure import bounds, code

#: Device -> the type in which the formulas are computed there: float64 would take a GPU ten times
#: as long, and twice the memory.
DTYPES = {"cpu": "fp64", "cuda": "fp32"}


class Unavailable(Exception):
    """Why a group cannot be replayed."""


def choose(device):
    """Compute on this device from now on. Returns what it is called, and the formulas' type.

    Raises Unavailable where there is none.
    """
    import torch

    if device == "cuda":
        if not torch.cuda.is_available():
            raise Unavailable("PyTorch finds no GPU to replay on")
        # float32 as it is: by default cuDNN takes TensorFloat-32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.set_default_device(device)
        device = torch.cuda.get_device_name()
    return "%s, %s" % (device, DTYPES[here()])


def here():
    """The device that was chosen."""
    import torch

    return torch.get_default_device().type


def formulas(input, start, precision, accumulation=1):
    """A Plain on this device."""
    plain = Plain(input, start, precision, accumulation)
    plain.weights = {name: each.to(here()) for name, each in plain.weights.items()}
    known = plain.reference

    def tensors(*batch, **options):
        return tuple(each.to(here()) for each in known.tensors(*batch, **options))

    def outputs(*given):
        return known.outputs(*given).cpu()

    plain.reference = dataclasses.replace(known, tensors=tensors, outputs=outputs)
    return plain


def input_of(case, seed, data_dir, pool):
    """What the ranks' loaders were given; pool: how many synthetic batches they had."""
    # whose batches others take the place of
    data = "synthetic" if bounds.has_own_batches(case) else case.data
    return Input(
        workload=case.workload,
        data=data,
        data_dir=data_dir,
        batch_size=case.batch_size,
        dimensions=case.dimensions,
        seed=seed,
        parts=case.layout.data_parallel(case.devices),
        pool=pool,
        kind=workloads.data(case.workload)[data],
    )


def run_in(asked, arguments, module, schema):
    """Become the same command, of a module whose documents are of `schema`, under the environment's
    interpreter."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with open(asked.environment, encoding="utf-8") as stream:
        environment = json.load(stream)
    if environment["status"] != "ok":
        reason = "without PyTorch's environment: %s" % environment["reason"]
        document = {"schema": schema, "status": "unavailable", "reason": reason}
        files.write(asked.out, json.dumps(dict(document, windows=[], projections={})) + "\n")
        sys.exit()
    command = [environment["interpreter"], "-m", module, *arguments]
    command += ["--environment=", "--lock-sha256=" + code.applied_lock(environment)]
    os.execve(command[0], command, dict(os.environ, **KEPT_MEMORY, **environment["environ"]))
