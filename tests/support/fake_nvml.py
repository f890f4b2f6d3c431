"""NVML's answers on machines with GPUs that are not here, and a stand-in for nvidia-smi."""

import dataclasses
import types
from pathlib import Path


class NVMLError(Exception):
    pass


@dataclasses.dataclass
class Card:
    """A GPU as NVML tells of it. cores: the CPU numbers on its side of the machine."""

    name: str
    capability: tuple[int, int]
    uuid: str = "GPU-0"
    cores: tuple[int, ...] = ()
    millijoules: int = 0
    foreign: bool = False  # another job's, which cannot be opened
    pids: tuple[int, ...] = ()  # that compute on it
    samples: tuple[tuple[int, float, int], ...] = ()  # pid, UTC, percent


def hopper(number: int = 0, **facts) -> Card:
    return Card("NVIDIA H100 80GB HBM3", (9, 0), f"GPU-{number}a-h100", **facts)


def ampere(number: int = 0, **facts) -> Card:
    return Card("NVIDIA A100-SXM4-40GB", (8, 0), f"GPU-{number}b-a100", **facts)


def pynvml(cards: list[Card], driver: str = "580.65.06") -> types.ModuleType:
    """A module that answers like nvidia-ml-py; other questions are not supported by the card."""
    nvml = types.ModuleType("pynvml")

    def by_index(index: int) -> Card:
        if cards[index].foreign:
            raise NVMLError("Insufficient Permissions")
        return cards[index]

    def affinity(card: Card, words: int) -> list[int]:
        return [
            sum(1 << core % 64 for core in card.cores if core // 64 == word)
            for word in range(words)
        ]

    def running(card: Card) -> list[types.SimpleNamespace]:
        return [types.SimpleNamespace(pid=pid) for pid in card.pids]

    def utilization(card: Card, since: int) -> list[types.SimpleNamespace]:
        found = [
            types.SimpleNamespace(pid=pid, timeStamp=int(1e6 * utc), smUtil=percent)
            for pid, utc, percent in card.samples
            if 1e6 * utc > since
        ]
        return found or unsupported()  # as the driver says it: "Not Found"

    def unsupported(*_) -> None:
        raise NVMLError("Not Supported")

    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(cards),
        "nvmlDeviceGetHandleByIndex": by_index,
        "nvmlSystemGetDriverVersion": lambda: driver,
        "nvmlDeviceGetName": lambda card: card.name.encode(),  # as older versions say it
        "nvmlDeviceGetUUID": lambda card: card.uuid,
        "nvmlDeviceGetCudaComputeCapability": lambda card: card.capability,
        "nvmlDeviceGetMemoryInfo": lambda card: types.SimpleNamespace(total=80 << 30, used=1 << 30),
        "nvmlDeviceGetCpuAffinity": affinity,
        "nvmlDeviceGetComputeRunningProcesses": running,
        "nvmlDeviceGetProcessUtilization": utilization,
        "nvmlDeviceGetTotalEnergyConsumption": lambda card: card.millijoules,
    }
    nvml.NVMLError = NVMLError
    nvml.NVML_NVLINK_MAX_LINKS = 18
    nvml.__getattr__ = lambda name: 0 if name.isupper() else answers.get(name, unsupported)
    return nvml


def nvidia_smi(folder: Path, lines: dict[str, str]) -> None:
    """A script that knows these fields of one card, and refuses others as the real one does."""
    known = " ".join(lines)
    values = ", ".join(lines.values())
    script = folder / "nvidia-smi"
    script.write_text(
        f"""#!/bin/sh
asked=${{1#--query-gpu=}}
[ "$(echo $asked | tr , ' ')" = "{known}" ] || {{ echo "not a valid field to query."; exit 2; }}
echo "{values}"
"""
    )
    script.chmod(0o755)
