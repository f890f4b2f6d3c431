"""What a card says of itself: files of nvidia-smi; power, clocks and reasons at 10 Hz.

In: a card, as CUDA_VISIBLE_DEVICES spells it. NVML is asked (nvidia-ml-py), else nvidia-smi, which
runs all the time then. Out: <folder>/<file>.txt; a Sample a moment, and a summary of them.
"""

import contextlib
import subprocess
import threading
import time
from typing import NamedTuple

from dlperf.measure import host

#: file -> nvidia-smi's arguments
FILES = {"nvidia-smi.txt": [], "nvidia-smi-q.txt": ["-q"], "topology.txt": ["topo", "-m"]}
SMI_SECONDS = 30
PERIOD_SECONDS = 0.1
#: NVML's field of the power of this moment; without it power is a mean over up to a second
#: [nvml.h, NVML_FI_DEV_POWER_INSTANT].
POWER_INSTANT = 186
#: Why a clock is below its highest [nvml.h, nvmlClocksEventReason…].
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
COLUMNS = ("utc", "watts", "sm_mhz", "memory_mhz", "celsius", "reasons")
#: Of nvidia-smi, in this order; drivers before 530 have other names.
QUERIES = (
    "power.draw.instant,clocks.sm,clocks.mem,temperature.gpu,clocks_event_reasons.active",
    "power.draw.instant,clocks.sm,clocks.mem,temperature.gpu,clocks_throttle_reasons.active",
    "power.draw,clocks.sm,clocks.mem,temperature.gpu,clocks_throttle_reasons.active",
)


class Sample(NamedTuple):
    """A moment; None where a card does not say."""

    utc: float
    watts: float | None
    sm_mhz: float | None
    memory_mhz: float | None
    celsius: float | None
    reasons: int | None


def keep_files(folder):
    """Write what nvidia-smi says; {file: its first problem, "" if there is none}."""
    found = {}
    for name, arguments in FILES.items():
        try:
            done = subprocess.run(
                ["nvidia-smi", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SMI_SECONDS,
            )
            (folder / name).write_bytes(done.stdout)
            found[name] = "" if done.returncode == 0 else f"exit status {done.returncode}"
        except (OSError, subprocess.TimeoutExpired) as error:
            found[name] = str(error)
    return found


class Watch:
    """Samples of a card while it is entered: `samples`, `source`, `problem`."""

    def __init__(self, gpu, period=PERIOD_SECONDS):
        self.samples, self.source, self.problem = [], "", ""
        self._gpu, self._period, self._stop = gpu, period, threading.Event()
        self._smi = self._thread = None

    def __enter__(self):
        nvml = host._nvml()
        handle = host._handle(nvml, self._gpu) if nvml else None
        if handle is not None:
            self.source, target = "NVML", lambda: self._ask_nvml(nvml, handle)
        else:
            self.source, target = "nvidia-smi", self._read_smi
        self._thread = threading.Thread(target=target, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._smi:
            self._smi.terminate()
        self._thread.join(5)
        if not self.samples and not self.problem:
            self.problem = f"{self.source} said nothing of GPU {self._gpu}"

    def _ask_nvml(self, nvml, handle):
        asked_at = time.monotonic()
        while not self._stop.is_set():
            self.samples.append(of_nvml(nvml, handle))
            asked_at += self._period
            self._stop.wait(max(0.0, asked_at - time.monotonic()))

    def _read_smi(self):
        """Lines of an nvidia-smi that runs on; a field that a driver does not know ends it."""
        for query in QUERIES:
            command = ["nvidia-smi", f"--id={self._gpu}", f"--query-gpu={query}"]
            command += ["--format=csv,noheader,nounits", f"-lms={int(1000 * self._period)}"]
            try:
                self._smi = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            except OSError as error:
                self.problem = f"nvidia-smi: {error.strerror}"
                return
            with self._smi.stdout as lines:
                for line in lines:
                    sample = of_smi(line, time.time())
                    if sample:
                        self.samples.append(sample)
                    elif not self.samples:
                        self.problem = line.strip()
            self._smi.wait()
            if self.samples or self._stop.is_set():
                self.problem = "" if self.samples else self.problem
                return


def of_nvml(nvml, handle):
    def ask(question, *arguments):
        return host._ask(nvml, question, handle, *arguments)

    watts = None
    with contextlib.suppress(Exception):  # an older nvidia-ml-py or driver
        field = nvml.nvmlDeviceGetFieldValues(handle, [POWER_INSTANT])[0]
        watts = field.value.uiVal / 1000 if field.nvmlReturn == 0 else None
    if watts is None:
        milliwatts = ask("nvmlDeviceGetPowerUsage")
        watts = None if milliwatts is None else milliwatts / 1000
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return Sample(
        time.time(),
        watts,
        ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        reasons,
    )


def of_smi(line, utc):
    """A line of nvidia-smi as a Sample; None for one that is none, such as a message."""
    fields = [each.strip() for each in line.split(",")]
    if len(fields) != len(COLUMNS) - 1:
        return None
    values, kinds = [], (float, float, float, float, lambda text: int(text, 16))
    for text, read in zip(fields, kinds, strict=True):
        try:
            values.append(read(text))
        except ValueError:  # "[N/A]", "[Not Supported]", "[Unknown Error]"
            values.append(None)
    return None if all(value is None for value in values) else Sample(utc, *values)


def tsv(samples):
    """The samples as TSV; empty where a card does not say."""
    lines = ["\t".join(COLUMNS)]
    for each in samples:
        values = [f"{each.utc:.3f}", each.watts, each.sm_mhz, each.memory_mhz, each.celsius]
        values.append(None if each.reasons is None else f"{each.reasons:#x}")
        lines.append("\t".join("" if value is None else str(value) for value in values))
    return "\n".join(lines) + "\n"


def within(samples, window):
    """Those of a window in UTC."""
    return [each for each in samples if window[0] <= each.utc <= window[1]]


def reasons_of(samples):
    """{reason: share of the samples that have it}, those of bits without a name by their bits."""
    known = [each.reasons for each in samples if each.reasons is not None]
    bits = sorted({1 << bit for reasons in known for bit in range(64) if reasons >> bit & 1})
    return {
        REASONS.get(bit, f"{bit:#x}"): round(
            sum(bool(each & bit) for each in known) / len(known), 4
        )
        for bit in bits
    }
