"""Which loader gives a run its batches, and which folder it reads: as its workload says.

A loader is a workload's input.py, or a module of dlperf.loaders, with `open_batches(input, layout,
prefetch=None)`, whose input is a contract.run.Input; the readers, which are frameworks' own, take
the Run itself. Batches of data with a test set have `begin()` and `tests()` too (labelled.py). As a
program, it prints the sha256 of a reader's first batches, to compare interpreters.
"""

import argparse
import importlib
import json
import platform
import sys
import time

from dlperf import workloads
from dlperf.contract.dimension import Dimensions
from dlperf.contract.run import Input
from dlperf.loaders import DataError
from dlperf.loaders.formats import OF_FRAMEWORK


def open_batches(run, layout="NHWC"):
    """The source of batches of a rank's replica, in `layout` ("NCHW" or "NHWC") for images.

    Raises DataError for whatever can be known before the first batch.
    """
    module = loader(run.workload, run.data)
    kind = workloads.data(run.workload)[run.data]
    if kind.loader == "readers":
        return module.open_batches(run, layout, kind)
    batches = module.open_batches(run.input._replace(kind=kind), layout)
    return Asked(batches, run.workload) if run.scenario == "infer" else batches


class Asked:
    """A source of batches in which answers are zero, for an inference; otherwise the source.

    All ways to a batch are here, also a pool's (loaders/pool.py), and `refill`, which is set.
    """

    def __init__(self, batches, workload):
        self._batches, self._workload = batches, workload

    def next(self):
        return workloads.asked(self._workload, self._batches.next())

    def batch(self, number):
        return workloads.asked(self._workload, self._batches.batch(number))

    def contents(self):
        return (workloads.asked(self._workload, each) for each in self._batches.contents())

    @property
    def refill(self):
        return self._batches.refill

    @refill.setter
    def refill(self, refill):
        self._batches.refill = refill

    def __getattr__(self, name):
        return getattr(self._batches, name)

    def __enter__(self):
        self._batches.__enter__()
        return self

    def __exit__(self, *exception):
        self._batches.__exit__(*exception)


def loader(workload, kind):
    """The module that reads a kind of data. Raises DataError for any other kind."""
    kinds = workloads.data(workload)
    if kind not in kinds:
        raise DataError("data %r is not known; %s has: %s" % (kind, workload, ", ".join(kinds)))
    return importlib.import_module(module_of(workload, kinds[kind].loader))


def module_of(workload, loader):
    """The full name of the module that a kind of data names as its loader."""
    if loader == "input":
        return "dlperf.workloads.%s.input" % workload
    return "dlperf.loaders." + loader


def folder(case):
    """The folder under results/data that a case reads; '' where its data is synthetic."""
    name = workloads.data(case.workload)[case.data].folder
    return name.format(format=OF_FRAMEWORK.get(case.framework, ""), **case.dimensions)


def folders(case):
    """All folders under results/data that a case reads."""
    kind = workloads.data(case.workload)[case.data]
    tested = kind.test_folder if case.scenario == "quality" else ""
    return [each for each in (folder(case), tested) if each]


def reads(case):
    """Whether the case's framework reads that data: for its own format it needs a reader."""
    own_format = "{format}" in workloads.data(case.workload)[case.data].folder
    return case.framework in OF_FRAMEWORK or not own_format


def main(arguments=None):
    import numpy as np

    from dlperf.loaders.images import LAYOUTS, digest

    parser = argparse.ArgumentParser(
        prog="python -m dlperf.workloads.inputs",
        description="Print the sha256 of a reader's first batches, to compare interpreters.",
    )
    parser.add_argument("--case", required=True, help="file of a case document or of a record")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--layout", choices=LAYOUTS, default="NHWC")
    parser.add_argument("--count", type=int, default=2, help="batches (default: %(default)s)")
    asked = parser.parse_args(arguments)
    try:
        with open(asked.case, encoding="utf-8") as stream:
            document = json.load(stream)
        identity, settings = document["identity"], document["settings"]
        declared = workloads.dimensions(identity["workload"])
        own = {name: identity[name] for name in declared if name in identity}
        input = Input(
            workload=identity["workload"],
            data=identity["data"],
            data_dir=settings["data_dir"],
            batch_size=identity["batch_size"],
            dimensions=dict(Dimensions(declared, own)),
            seed=settings["seed"],
            part=asked.part,
            parts=asked.parts,
        )
        # One batch at a time, so that the speed is that of decoding alone.
        module = loader(input.workload, input.data)
        with module.open_batches(input, asked.layout, prefetch=1) as batches:
            start = time.perf_counter()
            read = [batches.next() for _ in range(asked.count)]
            seconds = time.perf_counter() - start
    except (DataError, OSError) as error:
        sys.exit("error: %s" % error)
    except (KeyError, ValueError) as error:
        sys.exit("error: %s: not a case document (%r)" % (asked.case, error))
    facts = {
        "sha256": digest(read, asked.layout),
        "first_batch_sha256": batches.first_batch_sha256,
        "milliseconds_per_sample": 1e3 * seconds / (asked.count * input.batch_size),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    if "PIL" in sys.modules:
        facts["pillow"] = sys.modules["PIL"].__version__
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
