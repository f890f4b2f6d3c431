"""How a model is spread over devices, and what one update takes in: in one place for all.

`batch_size` is what one model replica takes in one micro-step: a device's batch where the model is
not split. The global batch is batch_size x data_parallel x accumulation.
"""

import dataclasses
import re

from dlperf.contract.mesh import Mesh

#: Field -> how a name spells it, and the standard value, which is not spelled.
SPELLED = {
    "tensor_parallel": ("tp", 1),
    "pipeline_parallel": ("pp", 1),
    "zero_stage": ("zero", 0),
    "activation_checkpointing": ("ckpt", False),
    "accumulation": ("acc", 1),
}
#: In the order of the class.
NAMES = (
    "tensor_parallel",
    "pipeline_parallel",
    "zero_stage",
    "accumulation",
    "activation_checkpointing",
)
#: In a case's name accumulation stands behind the batch size, all others before it.
BEFORE_BATCH = tuple(name for name in SPELLED if name != "accumulation")
ZERO_STAGES = (0, 1, 2, 3)
#: Two of each kind prove a layout with more of them.
PROVED = 2

_PROVED = re.compile(
    r"(?:dp(\d+))?(?:tp(\d+))?(?:pp(\d+))?(?:zero(\d+))?(?:ckpt(\d+))?(?:acc(\d+))?(?:-(\d+)n)?"
)


@dataclasses.dataclass(frozen=True)
class Layout:
    """tensor_parallel, pipeline_parallel: devices that one model replica is split over, by matrices
    and by layers. zero_stage: what of the optimiser's state (1), gradients (2) and weights (3) is
    sharded over replicas. accumulation: micro-steps whose gradients are averaged for one update.
    activation_checkpointing: whether the backward pass computes activations again.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    zero_stage: int = 0
    accumulation: int = 1
    activation_checkpointing: bool = False

    @property
    def devices_per_replica(self):
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def is_split(self):
        """Whether a device has a part of the model, or of its weights, alone."""
        return self.devices_per_replica > 1 or self.zero_stage == 3

    def mesh(self, devices):
        """How so many devices are arranged."""
        return Mesh(self.data_parallel(devices), self.tensor_parallel, self.pipeline_parallel)

    def data_parallel(self, devices):
        """Model replicas on so many devices."""
        return devices // self.devices_per_replica

    def global_batch_size(self, batch_size, devices):
        """Samples that one update takes in."""
        return batch_size * self.data_parallel(devices) * self.accumulation

    def problem(self, devices):
        """Why this layout does not fit so many devices, or ""."""
        if devices % self.devices_per_replica:
            return "%d %s cannot be split into replicas of %d (tensor_parallel %d x %s)" % (
                devices,
                "device" if devices == 1 else "devices",
                self.devices_per_replica,
                self.tensor_parallel,
                "pipeline_parallel %d" % self.pipeline_parallel,
            )
        return ""

    def spelled(self, *names):
        """['tp8', 'pp2']: those of the fields `names` that are not the standard ones."""
        return [
            "%s%d" % (SPELLED[name][0], getattr(self, name))
            for name in names
            if getattr(self, name) != SPELLED[name][1]
        ]

    def asked(self):
        """The fields that are not standard."""
        return [name for name in NAMES if getattr(self, name) != SPELLED[name][1]]

    def proved(self, devices, nodes=1):
        """The layout whose certificate covers this one: '1', 'dp2', 'acc2', 'tp2pp2', 'dp2-2n'.

        Two devices stand for any number in data, tensor and pipeline parallel, two micro-steps for
        any number of them, and two nodes for several.
        """
        counts = ("tensor_parallel", "pipeline_parallel", "accumulation")
        fewest = {name: min(PROVED, getattr(self, name)) for name in counts}
        replicas = min(PROVED, self.data_parallel(devices))
        parts = ["dp%d" % replicas] if replicas > 1 else []
        name = "".join(parts + dataclasses.replace(self, **fewest).spelled(*SPELLED)) or "1"
        return name + ("-%dn" % PROVED if nodes > 1 else "")


@dataclasses.dataclass(frozen=True)
class Proved:
    """A layout that a certificate proves: devices in all, nodes that they are on, and how."""

    name: str
    devices: int
    nodes: int
    layout: Layout

    @classmethod
    def parse(cls, name):
        """The layout that `name` spells. Raises ValueError for a name that none has."""
        found = re.fullmatch(_PROVED, "" if name == "1" else name)
        if found is None or not name:
            raise ValueError("%r is not a layout, such as 1, dp2, dp2acc2 or dp2-2n" % name)
        replicas, tensor, pipeline, zero, checkpointing, accumulation, nodes = (
            int(each or least) for each, least in zip(found.groups(), (1, 1, 1, 0, 0, 1, 1))
        )
        layout = Layout(tensor, pipeline, zero, accumulation, bool(checkpointing))
        devices = replicas * layout.devices_per_replica
        if layout.proved(devices, nodes) != name or zero not in ZERO_STAGES or devices % nodes:
            raise ValueError("%r is not a layout, such as 1, dp2, dp2acc2 or dp2-2n" % name)
        return cls(name, devices, nodes, layout)

    @property
    def parts(self):
        """Batches that one update takes in: a micro-step of a replica each."""
        return self.layout.data_parallel(self.devices) * self.layout.accumulation
