"""How a model's work is spread over devices, and what one update takes in: in one place for all.

`batch_size` is what one model replica takes in one micro-step: a device's batch where the model is
not split. The global batch is batch_size x data_parallel x accumulation.
"""

import dataclasses
import re

#: Field -> how a case's name spells it, and the value that is not spelled.
SPELLED = {
    "tensor_parallel": ("tp", 1),
    "pipeline_parallel": ("pp", 1),
    "zero_stage": ("zero", 0),
    "accumulation": ("acc", 1),
}
NAMES = tuple(SPELLED)
#: What proves a layout: two of each kind stand for more of them.
PROVED = 2

_LAYOUT = re.compile(r"(?:dp(\d+))?(?:tp(\d+))?(?:pp(\d+))?(?:zero(\d+))?(?:acc(\d+))?(?:-(\d+)n)?")


@dataclasses.dataclass(frozen=True)
class Parallel:
    """tensor_parallel, pipeline_parallel: devices that one model replica is split over, by matrices
    and by layers. zero_stage: what of the optimiser's state (1), gradients (2) and weights (3) is
    spread over replicas. accumulation: micro-steps whose gradients are averaged for one update.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    zero_stage: int = 0
    accumulation: int = 1

    @property
    def devices_per_replica(self):
        return self.tensor_parallel * self.pipeline_parallel

    def data_parallel(self, devices):
        """Model replicas on so many devices."""
        return devices // self.devices_per_replica

    def global_batch_size(self, batch_size, devices):
        """Samples that one update takes in."""
        return batch_size * self.data_parallel(devices) * self.accumulation

    def problem(self, devices):
        """Why this cannot be laid out on so many devices, or ""."""
        if devices % self.devices_per_replica:
            return "%d devices cannot be split into replicas of %d (tensor_parallel %d x %s)" % (
                devices,
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

    def layout(self, devices, nodes=1):
        """The layout whose certificate covers this one: '1', 'dp2', 'acc2', 'tp2pp2', 'dp2-2n'.

        Two devices stand for any number in data, tensor and pipeline parallel, two micro-steps for
        any number of them, and two nodes for several.
        """
        proved = Parallel(
            min(PROVED, self.tensor_parallel),
            min(PROVED, self.pipeline_parallel),
            self.zero_stage,
            min(PROVED, self.accumulation),
        )
        replicas = min(PROVED, self.data_parallel(devices))
        parts = ["dp%d" % replicas] if replicas > 1 else []
        name = "".join(parts + proved.spelled(*NAMES)) or "1"
        return name + ("-%dn" % PROVED if nodes > 1 else "")


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout that a certificate proves: devices in all, nodes that they are on, and how."""

    name: str
    devices: int
    nodes: int
    parallel: Parallel

    @classmethod
    def parse(cls, name):
        """The layout that `name` spells. Raises ValueError for a name that none has."""
        found = re.fullmatch(_LAYOUT, "" if name == "1" else name)
        if found is None or not name:
            raise ValueError("%r is not a layout, such as 1, dp2, dp2acc2 or dp2-2n" % name)
        replicas, tensor, pipeline, zero, accumulation, nodes = (
            int(each or least) for each, least in zip(found.groups(), (1, 1, 1, 0, 1, 1))
        )
        parallel = Parallel(tensor, pipeline, zero, accumulation)
        devices = replicas * parallel.devices_per_replica
        layout = cls(name, devices, nodes, parallel)
        if parallel.layout(devices, nodes) != name or devices % nodes:
            raise ValueError("%r is not a layout, such as 1, dp2, dp2acc2 or dp2-2n" % name)
        return layout

    @property
    def parts(self):
        """Batches that one update takes in: a micro-step of a replica each."""
        return self.parallel.data_parallel(self.devices) * self.parallel.accumulation
