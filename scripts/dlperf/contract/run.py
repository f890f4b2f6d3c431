"""What a rank is told."""

import dataclasses
import json
import socket
import time
from typing import Dict, List

#: Kinds of data that are read by the framework's own reader.
NATIVE = ("sample_native", "imagenet")


class Unsupported(Exception):
    """The framework cannot do on this device what the case asks; the message says what and why."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One rank of one repetition.

    `batch_size` is per device; `cores` are CPU numbers; `interpreter` is the framework's Python,
    which need not be the one that reads this before the rank starts. `address` and `port` are free
    for the framework's own meeting of ranks, on the node of rank 0; `peers` has such a "host:port"
    for every rank, on its own node. Ranks talk through the network `interface`; `meeting` is where
    the stopwatch's barriers are.
    """

    workload: str
    framework: str
    scenario: str
    precision: str
    compiler: str
    batch_size: int
    data: str
    dimensions: Dict[str, int]
    device: str
    warmup_steps: int
    measured_steps: int
    cores_per_device: int
    seed: int
    data_dir: str
    rank: int
    local_rank: int
    ranks: int
    local_ranks: int
    cores: List[int]
    interpreter: str
    address: str
    port: int
    peers: List[str]
    interface: str
    meeting: str
    result: str

    @property
    def amp(self):
        return self.precision == "amp"

    @property
    def float64(self):
        """Only certificates compute so."""
        return self.precision == "fp64"

    @property
    def cuda(self):
        return self.device == "cuda"

    @property
    def distributed(self):
        return self.ranks > 1

    @property
    def node(self):
        """The number of this rank's node."""
        return self.rank // self.local_ranks

    @property
    def own_address(self):
        """The address of this rank's node."""
        return self.peers[self.rank].rpartition(":")[0]

    @property
    def global_batch_size(self):
        return self.batch_size * self.ranks

    @property
    def steps(self):
        """All steps of the run, warm-up and measured."""
        return self.warmup_steps + self.measured_steps

    def batches(self, layout):
        """This rank's source of batches in `layout` ("NCHW" or "NHWC").

        See data/batches.py and, for those of the framework's own reader, data/readers.
        """
        if self.data in NATIVE:
            from dlperf.data.readers import open_images

            return open_images(self, layout)
        from dlperf.data.batches import open_batches

        asked = dict(dataclasses.asdict(self), **self.dimensions)
        return open_batches(asked, asked, self.rank, self.ranks, layout)

    def wait_for_port(self):
        """Return when something listens at `address` and `port`; the case's time limit ends it.

        For frameworks that wait seconds before they try a second time.
        """
        while True:
            try:
                socket.create_connection((self.address, self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)

    def save(self, path):
        with open(path, "w") as stream:
            json.dump(dataclasses.asdict(self), stream)

    @classmethod
    def load(cls, path):
        with open(path) as stream:
            return cls(**json.load(stream))
