"""What a rank is told."""

import dataclasses
import json
import socket
import time
from typing import Dict, List, NamedTuple, Optional

from dlperf.contract.dimension import Data, Value
from dlperf.contract.layout import Layout


class Unsupported(Exception):
    """The framework cannot do on this device what the case asks; the message says what and why."""


#: Synthetic batches at most, which come in turn, and the share of a device's memory for them.
POOL, POOL_SHARE = 8, 0.1


class Input(NamedTuple):
    """What a loader of batches needs to know of a run, or of a reference without one.

    part, parts: of each global batch of `parts` x batch_size samples, which slice is this reader's.
    batches: how many will be asked for (None: not known). float64: images in that type. pool: how
    many synthetic batches there are, in turn, fewer where they take more than `pool_bytes` (0: no
    bound); of an inference 0: none comes twice.
    warmup: so many batches of noise come first, of the quality scenario: what it trains on is not
    touched before it begins. held_out: what such a training tests with is kept out of what it
    trains on. kind: what the workload declares of these data.
    """

    workload: str
    data: str
    data_dir: str
    batch_size: int
    dimensions: Dict[str, Value]
    seed: int
    part: int = 0
    parts: int = 1
    batches: Optional[int] = None
    float64: bool = False
    pool: int = POOL
    pool_bytes: int = 0
    warmup: int = 0
    held_out: bool = False
    kind: Optional[Data] = None


@dataclasses.dataclass(frozen=True)
class Rank:
    """One process of several that work together: where it runs, and whom it meets.

    `cores` are CPU numbers; `interpreter` is the framework's Python, which need not be the one that
    reads this before the rank starts. `address` and `port` are free for the framework's own meeting
    of ranks, on the node of rank 0; `peers` has such a "host:port" for every rank, on its own node.
    Ranks talk through the network `interface`; `meeting` is where the stopwatch's barriers are.
    `gpus` are those of the node's ranks, as CUDA_VISIBLE_DEVICES spells them; `capability` is the
    compute capability of its own, such as "9.0", "" where it is not known or there is none.
    """

    framework: str
    precision: str
    compiler: str
    device: str
    cores_per_device: int
    seed: int
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
    gpus: List[str]
    capability: str
    result: str

    devices = 1  # that it owns

    @property
    def amp(self):
        return self.precision.startswith("amp")

    @property
    def has_bfloat16(self):
        """Whether the device computes in bfloat16: a CPU does, a GPU from Ampere on."""
        return not self.capability or int(self.capability.partition(".")[0]) >= 8

    @property
    def tf32(self):
        """Whether a GPU may round the factors of float32 products to TF32's 10 bits.

        In mixed precision too: what few products it leaves in float32 are as fast as they can be.
        """
        return self.precision == "tf32" or self.amp

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


@dataclasses.dataclass(frozen=True)
class Run(Rank):
    """One rank of one repetition of a case. `batch_size` is of one replica in one micro-step.

    warmup_steps, measured_steps: of scenarios whose implementations need them, else 0: what is
    asked of a training is told when it is built, and not to its implementation. devices: that this
    rank owns, one unless its framework drives all of a node's in one process.
    pool_bytes: of the device's memory, for synthetic batches; 0: not known.
    epochs, evaluations: of the quality scenario, else 0. loss_scale: what the loss is multiplied
    by at first where gradients are float16. A certificate takes 1: its only step must not overflow.
    """

    workload: str
    scenario: str
    batch_size: int
    layout: Layout
    data: str
    dimensions: Dict[str, Value]
    data_dir: str
    warmup_steps: int = 0
    measured_steps: int = 0
    devices: int = 1
    pool_bytes: int = 0
    epochs: int = 0
    evaluations: int = 0
    loss_scale: float = 2.0**16

    def __post_init__(self):
        if isinstance(self.layout, dict):  # as JSON has it
            object.__setattr__(self, "layout", Layout(**self.layout))

    @property
    def accumulation(self):
        """Micro-steps an update."""
        return self.layout.accumulation

    @property
    def data_parallel(self):
        """Model replicas."""
        return self.layout.data_parallel(self.ranks * self.devices)

    @property
    def mesh(self):
        """How all devices are arranged: replicas, and what one is split over."""
        return self.layout.mesh(self.ranks * self.devices)

    @property
    def coordinates(self):
        """Where this rank (its first device) is in the mesh."""
        return self.mesh.coordinates(self.rank * self.devices)

    @property
    def replica(self):
        """The number of this rank's (first) model replica."""
        return self.coordinates.data

    @property
    def dropout_seed(self):
        """Of this rank's dropout: replicas and stages drop other elements, the ranks of a tensor
        group the same ones of what each of them has."""
        place = self.coordinates
        return self.seed + place.data + self.data_parallel * place.pipeline

    @property
    def global_batch_size(self):
        return self.layout.global_batch_size(self.batch_size, self.ranks * self.devices)

    @property
    def steps(self):
        """All steps of the run, warm-up and measured, where they are known."""
        return self.warmup_steps + self.measured_steps

    @property
    def input(self):
        """What this rank's replica reads."""
        return Input(
            workload=self.workload,
            data=self.data,
            data_dir=self.data_dir,
            batch_size=self.batch_size,
            dimensions=self.dimensions,
            seed=self.seed,
            part=self.replica,
            parts=self.data_parallel,
            batches=self.steps * self.accumulation or None,
            float64=self.float64,
            pool=0 if self.scenario == "infer" else POOL,
            pool_bytes=self.pool_bytes,
            warmup=self.warmup_steps * self.accumulation if self.scenario == "quality" else 0,
            held_out=self.scenario == "quality",
        )
