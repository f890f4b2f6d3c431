"""Columns of measurements, parity, certificates and cells, in their order, with their types."""

from collections.abc import Iterable

from dlperf import workloads

#: A case, without its workload's own dimensions.
CASE = (
    "workload",
    "framework",
    "scenario",
    "precision",
    "compiler",
    "nodes",
    "devices_per_node",
    "batch_size",
    "data",
)
SETTINGS = ("device", "cores_per_device", "warmup_steps", "measured_steps")

#: What merge copies from a record's host and provenance.
HOST = (
    "hostname",
    "cpu",
    "cores",
    "cores_allowed",
    "memory_bytes",
    "os",
    "kernel",
    "governor",
    "load_before",
    "idle_share_before",
    "foreign_cpu_share",
    "cpu_time_over_wall",
    "clock_mhz_before",
    "clock_mhz_after",
    "gpu_clock_mhz_before",
    "gpu_clock_mhz_after",
    "gpu_power_limit_watts",
    "startup_seconds",
    "warmup_seconds",
)
PROVENANCE = (
    "git_commit",
    "git_dirty",
    "config_sha256",
    "case_sha256",
    "code_sha256",
    "lock_sha256",
    "freeze_sha256",
    "data_manifest_sha256",
    "python",
    "start_utc",
    "end_utc",
    "seconds_total",
    "scheduler_job",
    "scheduler_job_start_utc",
)
MEASURED = (
    "status",
    "reason",
    "throughput",
    "outlier",
    "unit",
    "samples",
    "window_seconds",
    "window_start_utc",
    "window_end_utc",
    "clock",
    "step_seconds_median",
    "step_seconds_min",
    "step_seconds_max",
    "loader_share",
    "loss_first",
    "loss_last",
    "host_peak_rss_bytes",
    "device_peak_bytes",
    "device_total_peak_bytes",
    "energy_joules",
    "gpu",
    "gpu_driver",
    "throttled",
    "nodes_used",
    "peak_precision",
)
CELL = (
    "status",
    "reason",
    "n_ok",
    "n_asked",
    "n_oom",
    "n_timeout",
    "n_crashed",
    "n_missing",
    "unit",
    "throughput",
    "throughput_low",
    "throughput_high",
    "coverage",
    "cv",
    "detectable",
    "n_outliers",
    "rank",
    "rank_last",
    "rank_error",
    "speedup",
    "speedup_low",
    "speedup_high",
    "efficiency",
    "efficiency_low",
    "efficiency_high",
    "ratio_coverage",
    "loader_share",
    "loss_first",
    "loss_last",
    "host_peak_rss_bytes",
    "device_peak_bytes",
    "joules_per_sample",
    *("flops_per_sample", "peak_precision", "peak_stated_tflops", "peak_measured_tflops"),
    *("mfu_stated", "mfu_measured"),
    "certificate",
    "flags",
)
#: A cell beside the same one of another round.
COMPARISON = (
    "reason",
    "unit",
    "baseline_throughput",
    "throughput",
    "ratio",
    "ratio_low",
    "ratio_high",
    "ratio_coverage",
    "p",
    "p_corrected",
    "baseline_n_ok",
    "baseline_n_asked",
    "n_ok",
    "n_asked",
    "baseline_certificate",
    "certificate",
    "baseline_flags",
    "flags",
    "differs",
)
#: What merge copies from a certificate's provenance.
#: What a record and its certificate must have in common.
MADE_WITH = ("code_sha256", "lock_sha256")
CERTIFICATE_PROVENANCE = ("start_utc", "git_commit", "code_sha256", "lock_sha256", "seconds")
CERTIFICATE = (
    *("workload", "framework", "device", "precision", "compiler", "variant", "ranks"),  # its path
    "status",
    "tier",
    "tier_passed",
    "measured",
    "tolerance",
    "worst_tensor",
    "worst_step",
    "reason",
    *CERTIFICATE_PROVENANCE,
    "certificate",
    "certificate_sha256",
)
#: What one device can do at most: TFLOP/s of matrix products, GB/s of memory and of an all-reduce.
LIMIT = (
    *("basis", "device_name", "node", "what", "precision", "at_once", "limit", "limit_unit"),
    *("source", "source_sha256"),
)
#: What only rows of imported rounds have: the implementation's label, what the publication calls
#: the batch, the device, how the number was got, `imported`, and where it stands.
IMPORTED = ("implementation", "batch_label", "hardware", "estimator", "kind", "source")
PARITY = (*CASE[:5], "case", "table", "nodes", "devices_per_node", "key", "value", "repetitions")

_WHOLE = {
    "nodes",
    "devices_per_node",
    "batch_size",
    "cores_per_device",
    "repetition",
    "repetitions",
}
_WHOLE |= {"warmup_steps", "measured_steps", "n_ok", "n_asked", "n_oom", "n_timeout", "n_crashed"}
_WHOLE |= {"n_missing", "samples", "host_peak_rss_bytes", "device_peak_bytes"}
_WHOLE |= {"device_total_peak_bytes", "cores", "cores_allowed", "memory_bytes"}
_WHOLE |= {"ranks", "worst_step", "at_once", "n_outliers", "rank", "rank_last"}
_REAL = {"throughput", "throughput_low", "throughput_high", "coverage", "cv", "speedup"}
_REAL |= {"speedup_low", "speedup_high", "efficiency", "efficiency_low", "efficiency_high"}
_REAL |= {
    "loader_share",
    "ratio_coverage",
    "loss_first",
    "loss_last",
    "joules_per_sample",
    "energy_joules",
}
_REAL |= {"baseline_throughput", "ratio", "ratio_low", "ratio_high", "p", "p_corrected"}
_WHOLE |= {"baseline_n_ok", "baseline_n_asked"}
_REAL |= {"gpu_clock_mhz_before", "gpu_clock_mhz_after", "gpu_power_limit_watts"}
_REAL |= {"window_seconds", "step_seconds_median", "step_seconds_min", "step_seconds_max"}
_REAL |= {"load_before", "idle_share_before", "foreign_cpu_share", "cpu_time_over_wall"}
_REAL |= {"clock_mhz_before", "clock_mhz_after", "startup_seconds", "warmup_seconds"}
_REAL |= {"detectable", "rank_error"}
_REAL |= {"seconds_total", "measured", "tolerance", "seconds"}
_REAL |= {"flops_per_sample", "peak_stated_tflops", "peak_measured_tflops"}
_REAL |= {"mfu_stated", "mfu_measured", "limit"}


def dimensions(names: Iterable[str]) -> list[str]:
    """The own dimensions of these workloads, each once."""
    found = [name for workload in names for name in workloads.facts(workload).DIMENSIONS]
    return list(dict.fromkeys(found))


def measurements(names: Iterable[str], imported: bool = False) -> list[str]:
    """Columns of measurements.tsv.gz for a round of these workloads."""
    own = dimensions(names)
    return [
        *(IMPORTED if imported else ()),
        *("round", *CASE, *own, "repetition", "table", "case", *MEASURED, *SETTINGS, *HOST),
        *(*PROVENANCE, "record", "record_sha256"),
    ]


def cells(names: Iterable[str], imported: bool = False) -> list[str]:
    """Columns of cells.tsv for a round of these workloads."""
    own = IMPORTED if imported else ()
    return [*own, "round", "table", *CASE, *dimensions(names), "case", *SETTINGS, *CELL]


def comparison(names: Iterable[str]) -> list[str]:
    """Columns of a comparison of rounds of these workloads."""
    own = dimensions(names)
    return ["verdict", "baseline", "round", *CASE, *own, "case", *SETTINGS, *COMPARISON]


def numbers(columns: Iterable[str]) -> dict[str, type]:
    """The types of those columns that hold numbers."""
    own = set(dimensions(workloads.NAMES))
    kinds: dict[str, type] = {}
    for name in columns:
        if name in _WHOLE or name in own:
            kinds[name] = int
        elif name in _REAL:
            kinds[name] = float
    return kinds
