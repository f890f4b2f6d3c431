"""The facts and the state of the machine, read from /proc and NVML and never from a framework."""

import fcntl
import os
import platform
import socket
import struct
import subprocess
import time


def name():
    """This node's name: Slurm's name, if Slurm started this process."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


SIOCGIFADDR = 0x8915


def interfaces():
    """{network interface: IPv4 address} of this host."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, interface in socket.if_nameindex():
            request = struct.pack("256s", interface.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)
            except OSError:  # the interface has no address
                continue
            found[interface] = socket.inet_ntoa(answer[20:24])
    return found


def interface_of(address):
    """The interface that has this address; "lo" if none has."""
    return next((name for name, own in interfaces().items() if own == address), "lo")


def default_interface():
    """The interface of the default route; "lo" if there is none."""
    for line in _read("/proc/net/route").splitlines()[1:]:
        fields = line.split()
        if fields[1] == "00000000":
            return fields[0]
    return "lo"


BUSY = 0.05  # a process that uses more than this share of a core is named


def cores():
    """The CPU numbers that this process may use (in a Slurm step or a container, not all)."""
    return sorted(os.sched_getaffinity(0))


def _read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def _field(text, key):
    for line in text.splitlines():
        left, _, right = line.partition(":")
        if left.strip() == key:
            return right.strip()
    return ""


def cpu_times():
    """(busy, all) seconds of all cores since boot."""
    numbers = [int(each) for each in _read("/proc/stat").split("\n")[0].split()[1:9]]
    ticks = float(os.sysconf("SC_CLK_TCK"))
    return (sum(numbers) - numbers[3] - numbers[4]) / ticks, sum(numbers) / ticks


def idleness(seconds):
    """What the CPUs do during the next `seconds`.

    idle_share: the idle share of all CPU time. busy_processes: [name, share of a core] of other
    processes that use more than BUSY of a core, the busiest first.
    """
    (busy, total), before = cpu_times(), _process_times()
    time.sleep(seconds)
    (busy_after, total_after), after = cpu_times(), _process_times()
    spent = total_after - total
    shares = [
        [name, round((ticks - before[pid][1]) / float(os.sysconf("SC_CLK_TCK")) / seconds, 2)]
        for pid, (name, ticks) in after.items()
        if pid in before and pid != os.getpid()
    ]
    shares = sorted((each for each in shares if each[1] > BUSY), key=lambda each: -each[1])
    return {
        "idle_share": round(max(0.0, 1 - (busy_after - busy) / spent), 4) if spent > 0 else None,
        "busy_processes": shares[:5],
    }


def _process_times():
    """{pid: (name, CPU ticks)} of all processes that may be read."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        name, _, rest = _read("/proc/%s/stat" % pid).partition(") ")
        fields = rest.split()
        if fields:
            found[int(pid)] = name.partition("(")[2], int(fields[11]) + int(fields[12])
    return found


def free_bytes(folder="."):
    """Bytes that may still be written to the folder's disk."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def memory_bytes(field="MemTotal"):
    """This host's memory; of `MemAvailable`, what can be had without swapping."""
    return int((_field(_read("/proc/meminfo"), field) or "0 kB").split()[0]) * 1024


def oom_kills():
    """How many processes the kernel has killed for lack of memory since boot."""
    for line in _read("/proc/vmstat").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def clock_mhz():
    """The mean clock of the CPU's cores, or None if the kernel does not report it."""
    clocks = [
        float(line.partition(":")[2])
        for line in _read("/proc/cpuinfo").splitlines()
        if line.startswith("cpu MHz")
    ]
    return round(sum(clocks) / len(clocks), 1) if clocks else None


def facts():
    """The facts of this host that do not change during a repetition."""
    cpuinfo = _read("/proc/cpuinfo")
    release = _read("/etc/os-release")
    system = [line for line in release.splitlines() if line.startswith("PRETTY_NAME=")]
    flags = _field(cpuinfo, "flags").split()
    return {
        "hostname": name(),
        "cpu": _field(cpuinfo, "model name") or platform.machine(),
        "cpu_features": [each for each in flags if each.startswith(("avx", "amx", "fma"))],
        "cores": os.cpu_count(),
        "cores_allowed": len(cores()),
        "memory_bytes": memory_bytes(),
        "os": system[0].partition("=")[2].strip('"') if system else platform.system(),
        "kernel": platform.release(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip(),
    }


def mkl_variables():
    """Variables for a framework that ships an Intel MKL older than 2020.1, as PaddlePaddle does.

    On processors that are not Intel's, such an MKL uses its slowest kernels unless it is told to
    use those for AVX2. Later versions ignore this.
    """
    cpuinfo = _read("/proc/cpuinfo")
    others = _field(cpuinfo, "vendor_id") != "GenuineIntel"
    slow = others and "avx2" in _field(cpuinfo, "flags").split()
    return {"MKL_DEBUG_CPU_TYPE": "5"} if slow else {}


def siblings(among):
    """The CPU numbers `among` by physical core: hyper-threads of one core are in one list."""
    path = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"
    found = {}
    for core in among:
        found.setdefault(_read(path % core).strip() or str(core), []).append(core)
    return list(found.values())


# GPUs: asked of NVML (nvidia-ml-py), else of nvidia-smi, which knows less. Both count cards by
# their place on the PCI bus. CUDA counts the fastest first unless it is told otherwise, so ranks
# are told. What neither says is left out.

PCI_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _nvml():
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml
    except Exception:  # ImportError or an error of NVML: there is no usable GPU
        return None


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def _ask(nvml, question, *arguments):
    """NVML's answer; None if this card or driver does not have it."""
    try:
        return getattr(nvml, question)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


def _handles(nvml):
    """NVML's handles of the GPUs that may be opened here: a job's cgroup may hide the others."""
    count = _ask(nvml, "nvmlDeviceGetCount") or 0
    found = [_ask(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    return [each for each in found if each is not None]


#: gpu_facts' names of what nvidia-smi says, and its own; the last is unknown to drivers before 510.
SMI = (
    ("name", "name", str),
    ("uuid", "uuid", str),
    ("driver", "driver_version", str),
    ("memory_bytes", "memory.total", lambda mib: int(mib) * 2**20),
    ("sm_clock_mhz", "clocks.sm", int),
    ("memory_clock_mhz", "clocks.mem", int),
    ("power_limit_watts", "power.limit", float),
    ("compute_capability", "compute_cap", str),
)


def _smi():
    """The facts of all GPUs by nvidia-smi; [] without it."""
    for asked in (SMI, SMI[:-1]):
        query = "--query-gpu=" + ",".join(theirs for _, theirs, _ in asked)
        command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
        try:
            answer = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        if answer.returncode == 0:
            lines = answer.stdout.decode(errors="replace").splitlines()
            return [_said(asked, line.split(", ")) for line in lines if line.strip()]
    return []


def _said(asked, values):
    found = dict.fromkeys(ours for ours, _, _ in SMI)
    for (ours, _, kind), value in zip(asked, values):
        try:
            # "[N/A]", "[Not Supported]"
            found[ours] = None if value.startswith("[") else kind(value.strip())
        except ValueError:  # other words in place of a number
            found[ours] = None
    return found


def visible_gpus():
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES spells them.

    As in CUDA, a list ends before the first GPU that is not there.
    """
    nvml = _nvml()
    if nvml:
        uuids = [_text(_ask(nvml, "nvmlDeviceGetUUID", each)) for each in _handles(nvml)]
    else:
        uuids = [each["uuid"] for each in _smi()]
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [str(index) for index in range(len(uuids))]
    found = []
    for each in (named.strip() for named in listed.split(",")):
        part = each.startswith("MIG-") and uuids  # a part of a card is not among the cards
        if _place(each, uuids) is None and not part:
            break
        found.append(each)
    return found


def _place(gpu, uuids):
    """The index of a GPU that is named by index, UUID or the beginning of one; None without it."""
    if gpu.isdigit():
        return int(gpu) if int(gpu) < len(uuids) else None
    places = [place for place, uuid in enumerate(uuids) if gpu and (uuid or "").startswith(gpu)]
    return places[0] if places else None


def _handle(nvml, gpu):
    """NVML's handle of the GPU that CUDA_VISIBLE_DEVICES spells so; None without one."""
    if gpu.startswith("MIG-"):
        return _ask(nvml, "nvmlDeviceGetHandleByUUID", gpu)
    handles = _handles(nvml)
    uuids = [_text(_ask(nvml, "nvmlDeviceGetUUID", each)) for each in handles]
    place = _place(gpu, uuids)
    return None if place is None else handles[place]


def gpu_facts(gpus):
    """A dict a GPU: name, memory, driver, clocks, throttle reasons, temperature, processes."""
    nvml = _nvml()
    if nvml:
        handles = [_handle(nvml, gpu) for gpu in gpus]
        return [_facts(nvml, handle) if handle is not None else {} for handle in handles]
    cards = _smi()
    places = [_place(gpu, [each["uuid"] for each in cards]) for gpu in gpus]
    return [{} if place is None else cards[place] for place in places]


def _facts(nvml, handle):
    def ask(question, *arguments):
        return _ask(nvml, question, handle, *arguments)

    memory = ask("nvmlDeviceGetMemoryInfo")
    limit = ask("nvmlDeviceGetPowerManagementLimit")
    capability = ask("nvmlDeviceGetCudaComputeCapability")
    # a counter, which shows what happened between two readings even if the GPU is idle at both
    hot = ask("nvmlDeviceGetViolationStatus", nvml.NVML_PERF_POLICY_THERMAL)
    capped = ask("nvmlDeviceGetViolationStatus", nvml.NVML_PERF_POLICY_POWER)
    return {
        "name": _text(ask("nvmlDeviceGetName")),
        "uuid": _text(ask("nvmlDeviceGetUUID")),
        "driver": _text(_ask(nvml, "nvmlSystemGetDriverVersion")),
        "compute_capability": "%d.%d" % tuple(capability) if capability else None,
        "memory_bytes": memory.total if memory else None,
        "memory_used_bytes": memory.used if memory else None,
        "power_limit_watts": limit / 1000.0 if limit else None,
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        "throttle_reasons": ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        "thermal_violation_seconds": hot.violationTime / 1e9 if hot else None,
        "power_violation_seconds": capped.violationTime / 1e9 if capped else None,
        "temperature_celsius": ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        "processes": len(ask("nvmlDeviceGetComputeRunningProcesses") or []),
        "ecc_errors": ask(
            "nvmlDeviceGetTotalEccErrors",
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        ),
        # correctable, uncorrectable, pending, failed
        "remapped_rows": ask("nvmlDeviceGetRemappedRows"),
        "pcie": [
            ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            ask("nvmlDeviceGetCurrPcieLinkWidth"),
        ],
        "nvlinks": sum(
            ask("nvmlDeviceGetNvLinkState", link) == 1 for link in range(nvml.NVML_NVLINK_MAX_LINKS)
        ),
    }


def gpu_sides(gpus):
    """For each GPU (the CPU numbers on its side of the machine, who says so).

    NVML says it, else sysfs: the NUMA node of the card's place on the PCI bus. ([], "") where
    neither does, as in many virtual machines.
    """
    nvml = _nvml()
    found = []
    for gpu in gpus:
        handle = _handle(nvml, gpu) if nvml else None
        near = _near(nvml, handle) if handle is not None else []
        if near:
            found.append((near, "nvml"))
            continue
        near = cores_by_place(_place_on_bus(nvml, handle, gpu))
        found.append((near, "sysfs" if near else ""))
    return found


def _near(nvml, handle):
    """The CPU numbers that NVML says are close to a card."""
    bits = 64
    words = max(os.sysconf("SC_NPROCESSORS_CONF"), cores()[-1] + 1) // bits + 1
    mask = _ask(nvml, "nvmlDeviceGetCpuAffinity", handle, words)
    return [
        bits * index + bit
        for index, word in enumerate(mask or [])
        for bit in range(bits)
        if word >> bit & 1
    ]


def _place_on_bus(nvml, handle, gpu):
    """A card's place on the PCI bus, as '00000000:17:00.0'; "" if nobody says it."""
    if handle is not None:
        told = _ask(nvml, "nvmlDeviceGetPciInfo", handle)
        return _text(told.busId) if told else ""
    command = ["nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = answer.stdout.decode(errors="replace").splitlines() if not answer.returncode else []
    cards = [line.split(", ") for line in lines if line.count(", ") == 2]
    place = _place(gpu, [uuid for _, uuid, _ in cards])
    return "" if place is None else cards[place][2].strip()


def cores_by_place(place, root="/sys"):
    """The CPU numbers of the NUMA node at which a card's place on the PCI bus is; [] if unknown.

    sysfs writes a place with four digits of its domain, NVIDIA with eight. A node of -1: the
    firmware does not say. [Linux, Documentation/ABI/testing/sysfs-bus-pci, numa_node]
    """
    domain, _, rest = place.strip().lower().partition(":")
    if not rest:
        return []
    path = "%s/bus/pci/devices/%s:%s/numa_node" % (root, domain[-4:].rjust(4, "0"), rest)
    number = _read(path).strip()
    if not number.isdigit():
        return []
    return listed_cores(_read("%s/devices/system/node/node%s/cpulist" % (root, number)))


def listed_cores(text):
    """The CPU numbers of a list as the kernel writes it, such as '0-15,32-47'."""
    found = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return []
        found += range(int(first), int(last or first) + 1)
    return found


def gpu_load(gpus):
    """A dict a GPU of what it does at this moment, under load: power, clocks, reasons, counters.

    {} where NVML does not say. It takes well below a millisecond a card.
    """
    nvml = _nvml()
    handles = [_handle(nvml, gpu) if nvml else None for gpu in gpus]
    return [_load(nvml, handle) if handle is not None else {} for handle in handles]


def _load(nvml, handle):
    def ask(question, *arguments):
        return _ask(nvml, question, handle, *arguments)

    milliwatts = ask("nvmlDeviceGetPowerUsage")
    hot = ask("nvmlDeviceGetViolationStatus", nvml.NVML_PERF_POLICY_THERMAL)
    capped = ask("nvmlDeviceGetViolationStatus", nvml.NVML_PERF_POLICY_POWER)
    return {
        "utc": round(time.time(), 3),
        "power_watts": None if milliwatts is None else milliwatts / 1000.0,
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        "throttle_reasons": ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        "thermal_violation_seconds": hot.violationTime / 1e9 if hot else None,
        "power_violation_seconds": capped.violationTime / 1e9 if capped else None,
    }


def gpu_processes(gpus):
    """For each GPU the pids that compute on it; [] where NVML does not say.

    Pids are those that the driver sees: in a container with pids of its own, others than here.
    """
    nvml = _nvml()
    handles = [_handle(nvml, gpu) if nvml else None for gpu in gpus]
    asked = "nvmlDeviceGetComputeRunningProcesses"
    return [
        [each.pid for each in (_ask(nvml, asked, handle) if handle is not None else None) or []]
        for handle in handles
    ]


def gpu_busy(gpus, since_utc):
    """[pid, UTC, percent of the multiprocessors' time] of each sample of each GPU since then.

    The driver keeps the last samples alone, of about a sixth of a second each (nvml.h,
    nvmlDeviceGetProcessUtilization).
    """
    nvml = _nvml()
    found = []
    for gpu in gpus:
        handle = _handle(nvml, gpu) if nvml else None
        if handle is not None:
            asked = "nvmlDeviceGetProcessUtilization"
            samples = _ask(nvml, asked, handle, int(1e6 * since_utc)) or []
            found += [[each.pid, each.timeStamp / 1e6, each.smUtil] for each in samples]
    return found


#: What gpu_joules asks.
ENERGY_COUNTER = "nvml_total_energy"


def gpu_joules(gpus):
    """For each GPU the joules that it has taken since the driver was loaded; None: not known."""
    nvml = _nvml()
    found = []
    for gpu in gpus:
        handle = _handle(nvml, gpu) if nvml else None
        asked = "nvmlDeviceGetTotalEnergyConsumption"
        millijoules = _ask(nvml, asked, handle) if handle is not None else None
        found.append(None if millijoules is None else millijoules / 1000.0)
    return found


def own_gpus(run):
    """A rank's own of its node's GPUs."""
    return run.gpus[run.local_rank * run.devices :][: run.devices]
