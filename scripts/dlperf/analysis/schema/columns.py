"""The columns of every table from measurements to comparisons: name, type, heading and form.

ALL has each column once. The tuples after it say which columns a file has, in their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dlperf import scenarios, workloads
from dlperf.analysis.schema import forms
from dlperf.contract.case import COLUMNS
from dlperf.contract.layout import NAMES as LAYOUT

#: By name; what two scenarios have is the same in both.
_METRICS = {each.name: each for name in scenarios.NAMES for each in scenarios.load(name).METRICS}
#: What repetitions are measured by, in all scenarios.
METRICS = tuple(_METRICS)
#: What a step's time is compared with: see round/roofline.py.
ROOFS = ("arithmetic", "least", "fused", "eager")


class Column(NamedTuple):
    """`kind` is str, int or float; `heading` and `form` are for readers."""

    name: str
    kind: type = str
    heading: str = ""
    form: forms.Form = forms.plain

    @property
    def title(self) -> str:
        """The heading; the name in words where none is given."""
        return self.heading or self.name.replace("_", " ").capitalize()


ALL = (
    # which round, table, case and repetition
    Column("round"),
    Column("table"),
    Column("case"),
    Column("repetition", int),
    Column("workload"),
    Column("framework"),
    Column("scenario"),
    Column("precision"),
    Column("compiler"),
    Column("nodes", int),
    Column("devices_per_node", int),
    *(Column(name, int) for name in LAYOUT),
    Column("batch_size", int, "Batch per device"),
    Column("global_batch_size", int, "Batch of all devices"),
    Column("searched", str, "Largest that fits"),
    Column("epochs", int),
    Column("arrival_rate", int, "Requests/s"),
    Column("data"),
    # how it was asked for
    Column("device"),
    Column("cores_per_device", int, "Cores per device"),
    Column("warmup_steps", int, "Steps of warm-up"),
    Column("measured_steps", int, "Steps"),
    Column("minimum_seconds", float, "Seconds at least"),
    Column("memory_limit_bytes", int, "Memory limit per device", forms.size),
    # a try of a search
    Column("largest", int),
    Column("above"),
    Column("why"),
    Column("try", int),
    Column("size", int),
    Column("peak_bytes", int, "Memory per device", forms.size),
    Column("limit_bytes", int, "Limit of memory", forms.size),
    # what a repetition gave
    Column("status", str, "Status", forms.status),
    Column("reason"),
    *(Column(each.name, float, each.heading, forms.number) for each in _METRICS.values()),
    Column("outlier"),
    Column("unit", str, "Unit"),
    Column("samples", int),
    Column("timed_steps", int),
    Column("trial_seconds", float),
    Column("window_seconds", float),
    Column("window_start_utc"),
    Column("window_end_utc"),
    Column("clock"),
    Column("step_seconds_median", float),
    Column("step_seconds_min", float),
    Column("step_seconds_max", float),
    Column("loader_share", float, "Waited for data", forms.fine_percent),
    Column("training_loss", float),
    Column("target", float),
    Column("loss_first", float, "Loss, first", forms.real(3)),
    Column("loss_last", float, "Loss, last", forms.real(3)),
    Column("weights_change", float),
    Column("weights_unchanged", int),
    Column("weights_distinct", int),
    Column("outputs_projection", float),
    Column("outputs_norm", float),
    Column("host_peak_rss_bytes", int, "Host memory per rank", forms.size),
    Column("device_peak_bytes", int, "Device memory", forms.size),
    Column("device_total_peak_bytes", int),
    Column("energy_joules", float),
    Column("gpu", str, "GPU"),
    Column("gpu_driver", str, "GPU driver"),
    Column("throttled"),
    Column("placement"),
    Column("nodes_used"),
    Column("peak_precision", str, "Computes in"),
    Column("cuda_graphs"),
    # the machine that it ran on
    Column("hostname", str, "machine"),
    Column("cpu", str, "CPU"),
    Column("cores", int, "cores"),
    Column("cores_allowed", int, "cores that may be used"),
    Column("memory_bytes", int, "memory", forms.size),
    Column("os", str, "system"),
    Column("kernel", str, "kernel"),
    Column("governor", str, "CPU governor"),
    Column("load_before", float, "load before a repetition"),
    Column("idle_share_before", float, "idle CPU time before a repetition"),
    Column("foreign_cpu_share", float, "CPU time of others in the window"),
    Column("cpu_time_over_wall", float, "CPU time over wall time of the ranks"),
    Column("clock_mhz_before", float, "CPU clock before a repetition"),
    Column("clock_mhz_after", float, "CPU clock after a repetition"),
    Column("gpu_clock_mhz_before", float, "GPU clock before a repetition"),
    Column("gpu_clock_mhz_after", float, "GPU clock after a repetition"),
    Column("gpu_clock_mhz_within", float, "GPU clock in the window"),
    Column("gpu_power_capped_share", float, "Time of the window under the GPU's power cap"),
    Column("gpu_power_limit_watts", float, "GPU power limit (W)"),
    Column("startup_seconds", float),
    Column("warmup_seconds", float),
    # what made it
    Column("git_commit", str, "commit"),
    Column("git_dirty", str, "uncommitted changes"),
    Column("config_sha256"),
    Column("case_sha256"),
    Column("code_sha256", str, "code of the implementation (sha256)"),
    Column("lock_sha256", str, "lock (sha256)"),
    Column("freeze_sha256", str, "packages (sha256)"),
    Column("ran_beside_sha256", str, "all that was imported (sha256)"),
    Column("unvouched", str, "Vouched for by nobody"),
    Column("data_manifest_sha256", str, "data (sha256)"),
    Column("python", str, "Python"),
    Column("start_utc"),
    Column("end_utc"),
    Column("seconds_total", float),
    Column("scheduler_job"),
    Column("scheduler_job_start_utc"),
    Column("record"),
    Column("record_sha256"),
    # a cell: the repetitions of a case together
    Column("n_ok", int, "Repetitions ok"),
    Column("n_asked", int, "asked for"),
    Column("n_oom", int, "out of memory"),
    Column("n_timeout", int, "timed out"),
    Column("n_crashed", int, "crashed"),
    Column("n_missing", int, "not measured"),
    Column("metric", str, "Metric"),
    Column("better"),
    Column("median", float, "Median", forms.number),
    Column("median_low", float, "low", forms.number),
    Column("median_high", float, "high", forms.number),
    Column("coverage", float, "Coverage", forms.percent),
    Column("cv", float, "CV", forms.fine_percent),
    Column("mean", float, "Mean", forms.number),
    Column("deviation", float, "Deviation", forms.number),
    Column("minimum", float, "Least", forms.number),
    Column("maximum", float, "Largest", forms.number),
    Column("detectable", float, "Detectable", forms.fine_percent),
    Column("n_outliers", int, "Outliers"),
    Column("rank", int, "Rank, best"),
    Column("rank_last", int, "Rank, last"),
    Column("efficiency", float, "Efficiency", forms.percent),
    Column("efficiency_low", float, "low", forms.percent),
    Column("efficiency_high", float, "high", forms.percent),
    Column("ratio_coverage", float, "Coverage", forms.percent),
    Column("precision_base", str, "Over precision"),
    Column("precision_ratio", float, "Ratio to that precision", forms.real(3)),
    Column("precision_ratio_low", float, "low", forms.real(3)),
    Column("precision_ratio_high", float, "high", forms.real(3)),
    Column("precision_ratio_coverage", float, "Coverage", forms.percent),
    Column("together_ratio", float, "Ratio with the same batch of all devices", forms.real(3)),
    Column("together_ratio_low", float, "low", forms.real(3)),
    Column("together_ratio_high", float, "high", forms.real(3)),
    Column("together_ratio_coverage", float, "Coverage", forms.percent),
    Column("bubble", float, "Bubble", forms.percent),
    Column("idle", float, "Idle of a pipeline", forms.percent),
    Column("idle_low", float, "low", forms.percent),
    Column("idle_high", float, "high", forms.percent),
    Column("idle_coverage", float, "Coverage", forms.percent),
    Column("convergence", str, "Converges"),
    Column("convergence_ratio", float, "Ratio to the others", forms.real(3)),
    Column("convergence_low", float, "low", forms.real(3)),
    Column("convergence_high", float, "high", forms.real(3)),
    Column("convergence_p", float, "p", forms.real(3)),
    Column("flops_per_sample", float, "GFLOP a sample", forms.giga),
    Column("peak_stated_tflops", float, "Stated peak, TFLOP/s"),
    Column("peak_measured_tflops", float, "Measured peak, TFLOP/s"),
    Column("mfu_stated", float, "MFU, stated peak", forms.percent),
    Column("mfu_measured", float, "MFU, measured peak", forms.percent),
    Column("certificate"),
    Column("flags"),
    Column("over"),
    Column("together", int),
    # a tier of a certificate of equal work
    Column("variant"),
    Column("layout"),
    Column("tier"),
    Column("tier_passed"),
    Column("measured", float),
    Column("tolerance", float),
    Column("worst_tensor"),
    Column("check", str, "Spot check"),
    Column("spot_run"),
    Column("spot_run_sha256"),
    Column("replay"),
    Column("replay_sha256"),
    Column("worst_step", int),
    Column("seconds", float),
    Column("certificate_sha256"),
    Column("processor"),
    Column("released"),
    Column("milliseconds"),
    # what a process reported of its settings
    Column("key"),
    Column("value"),
    Column("repetitions", int),
    # what one device can do at most
    Column("basis"),
    Column("device_name"),
    Column("node"),
    Column("what"),
    Column("at_once", int),
    Column("limit", float),
    Column("limit_unit"),
    Column("source"),
    Column("source_sha256"),
    # a step beside what a device allows
    Column("step_ms", float, "Measured step, ms", forms.number),
    Column("memory_measured", float, "Memory, GB/s"),
    Column("flops_per_step", float, "GFLOP a step", forms.giga),
    *(Column(f"{name}_bytes", float) for name in ("least", "fused", "eager")),
    *(Column(f"{name}_ms", float) for name in ROOFS),
    *(Column(f"over_{name}", float) for name in ROOFS),
    # what only imported rounds have
    Column("implementation"),
    Column("published_table"),
    Column("batch_label"),
    Column("hardware"),
    Column("estimator"),
    Column("unsaid"),
    Column("kind"),
    # a cell beside the same one of another round
    Column("verdict"),
    Column("baseline"),
    Column("baseline_case"),
    Column("baseline_median", float),
    Column("ratio", float, "Ratio to the base", forms.real(3)),
    Column("ratio_low", float, "low", forms.real(3)),
    Column("ratio_high", float, "high", forms.real(3)),
    Column("p", float),
    Column("p_corrected", float),
    Column("baseline_n_ok", int),
    Column("baseline_n_asked", int),
    Column("baseline_certificate"),
    Column("baseline_flags"),
    Column("differs"),
    Column("margin", float),
)
_BY_NAME = {each.name: each for each in ALL}

#: A case, without its workload's own dimensions.
CASE = tuple(name for name in COLUMNS if name not in ("round", "repetition"))
SETTINGS = (
    *("device", "cores_per_device", "warmup_steps", "measured_steps", "minimum_seconds"),
    "memory_limit_bytes",
)
#: Of searches.tsv.
SEARCH = (
    *("workload", "framework", "compiler", "case", "searched", "largest", "above", "why", "try"),
    *("size", "kind", "status", "reason", "seconds", "peak_bytes", "limit_bytes"),
)

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
    "gpu_clock_mhz_within",
    "gpu_power_capped_share",
    "gpu_power_limit_watts",
    "startup_seconds",
    "warmup_seconds",
)
#: Of these, what is read anew in each repetition: by which factor it is shown, in which unit.
READINGS = {
    "load_before": (1, ""),
    "idle_share_before": (100, " %"),
    "foreign_cpu_share": (100, " %"),
    "cpu_time_over_wall": (100, " %"),
    "clock_mhz_before": (1, " MHz"),
    "clock_mhz_after": (1, " MHz"),
    "gpu_clock_mhz_before": (1, " MHz"),
    "gpu_clock_mhz_after": (1, " MHz"),
    "gpu_clock_mhz_within": (1, " MHz"),
    "gpu_power_capped_share": (100, " %"),
}
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
    *METRICS,
    "outlier",
    "unit",
    "samples",
    "timed_steps",
    "trial_seconds",
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
    "weights_change",
    "weights_unchanged",
    "weights_distinct",
    "outputs_projection",
    "outputs_norm",
    "host_peak_rss_bytes",
    "device_peak_bytes",
    "device_total_peak_bytes",
    "energy_joules",
    "gpu",
    "gpu_driver",
    "throttled",
    "placement",
    "nodes_used",
    "peak_precision",
    "cuda_graphs",
    "ran_beside_sha256",
    "unvouched",
)
CELL = (
    "metric",
    "better",
    "status",
    "reason",
    "n_ok",
    "n_asked",
    "n_oom",
    "n_timeout",
    "n_crashed",
    "n_missing",
    "unit",
    "median",
    "median_low",
    "median_high",
    "coverage",
    "cv",
    *("mean", "deviation", "minimum", "maximum"),
    "detectable",
    "n_outliers",
    "rank",
    "rank_last",
    "ratio",
    "ratio_low",
    "ratio_high",
    "efficiency",
    "efficiency_low",
    "efficiency_high",
    "ratio_coverage",
    *("precision_base", "precision_ratio", "precision_ratio_low", "precision_ratio_high"),
    "precision_ratio_coverage",
    *("together_ratio", "together_ratio_low", "together_ratio_high", "together_ratio_coverage"),
    *("bubble", "idle", "idle_low", "idle_high", "idle_coverage"),
    *("convergence", "convergence_ratio", "convergence_low", "convergence_high", "convergence_p"),
    "loader_share",
    "loss_first",
    "loss_last",
    "host_peak_rss_bytes",
    "device_peak_bytes",
    *("flops_per_sample", "peak_precision", "peak_stated_tflops", "peak_measured_tflops"),
    *("mfu_stated", "mfu_measured"),
    "certificate",
    "check",
    "flags",
)
#: What only derived rows of cells.tsv have: see round/derived.py.
DERIVED = ("over", "together")
#: What a case's rows in cells.tsv do not share, a metric each; the rest of CELL is either the
#: case's, or stands in the row of the scenario's own metric alone.
OF_METRIC = (
    *("metric", "better", "unit", "median", "median_low", "median_high", "coverage", "cv"),
    *("mean", "deviation", "minimum", "maximum"),
    *("detectable", "n_outliers", "rank", "rank_last"),
    *("ratio", "ratio_low", "ratio_high", "ratio_coverage"),
    *("efficiency", "efficiency_low", "efficiency_high"),
    *("precision_base", "precision_ratio", "precision_ratio_low", "precision_ratio_high"),
    "precision_ratio_coverage",
    *("together_ratio", "together_ratio_low", "together_ratio_high", "together_ratio_coverage"),
    *("bubble", "idle", "idle_low", "idle_high", "idle_coverage"),
    *("convergence", "convergence_ratio", "convergence_low", "convergence_high", "convergence_p"),
    *("loader_share", "loss_first", "loss_last", "host_peak_rss_bytes", "device_peak_bytes"),
    *("flops_per_sample", "peak_precision", "peak_stated_tflops", "peak_measured_tflops"),
    *("mfu_stated", "mfu_measured"),
)
#: A cell beside the same one of another round.
COMPARISON = (
    "reason",
    "metric",
    "better",
    "unit",
    "baseline_median",
    "median",
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
#: What a record and its certificate must have in common.
MADE_WITH = ("code_sha256", "lock_sha256")
#: What merge copies from a certificate's provenance.
CERTIFICATE_PROVENANCE = (
    *("start_utc", "git_commit", "code_sha256", "lock_sha256", "seconds"),
    *("processor", "released"),
)
CERTIFICATE = (
    *("workload", "framework", "device", "precision", "compiler", "variant", "layout"),  # its path
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
#: A tier of a case's spot check.
CHECK = (
    *("workload", "framework", "case", "status", "tier", "tier_passed", "measured", "tolerance"),
    *("worst_tensor", "reason", *MADE_WITH, "ran_beside_sha256", "unvouched"),
    *("spot_run", "spot_run_sha256", "replay", "replay_sha256"),
)
#: What one device can do at most: TFLOP/s of matrix products, GB/s of memory and of an all-reduce.
LIMIT = (
    *("basis", "device_name", "node", "what", "precision", "at_once", "limit", "limit_unit"),
    *("source", "source_sha256"),
)
#: A cell's step beside its arithmetic and its memory traffic at the speeds that a device reached.
ROOFLINE = (
    *(*CASE[:5], "case", "table", "nodes", "devices_per_node", "batch_size", "searched"),
    *("status", "certificate", "flags", "step_ms", "peak_precision", "peak_measured_tflops"),
    *("memory_measured", "flops_per_step", "least_bytes", "fused_bytes", "eager_bytes"),
    *(f"{name}_ms" for name in ROOFS),
    *(f"over_{name}" for name in ROOFS),
)
#: What tells rows of imported rounds apart beside their case: the implementation's label, the table
#: and the batch as the publication calls them, and the device.
PUBLISHED = ("implementation", "published_table", "batch_label", "hardware")
#: What only they have: the same, how the number was got, the columns of the publication that say
#: nothing where a table has a usual value, `imported`, and where it stands.
IMPORTED = (*PUBLISHED, "estimator", "unsaid", "kind", "source")
#: Of a repetition that is tested on the way: a row a test.
CURVES = (
    *(*CASE[:5], "case", "table", "nodes", "devices_per_node", "repetition"),
    *("samples", "seconds", "score", "training_loss", "target"),
)
#: Of a repetition with latencies: all of them, the smallest first.
LATENCIES = (*CASE[:5], "case", "table", "nodes", "devices_per_node", "repetition", "milliseconds")
PARITY = (*CASE[:5], "case", "table", "nodes", "devices_per_node", "key", "value", "repetitions")


def dimensions(names: Iterable[str]) -> list[str]:
    """The own dimensions of these workloads, each once."""
    found = [name for workload in names for name in workloads.of(workload).dimensions]
    return list(dict.fromkeys(found))


def measurements(names: Iterable[str]) -> list[str]:
    """Columns of measurements.tsv.gz for a round of these workloads."""
    own = dimensions(names)
    return [
        *("round", *CASE, *own, "repetition", "table", "case", "global_batch_size"),
        *(*MEASURED, *SETTINGS, *HOST, *PROVENANCE, "record", "record_sha256"),
    ]


def cells(names: Iterable[str]) -> list[str]:
    """Columns of cells.tsv for a round of these workloads, without DERIVED."""
    own = dimensions(names)
    return ["round", "table", *CASE, *own, "case", "global_batch_size", *SETTINGS, *CELL]


def of_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of a table of these cells: before those of cells.tsv, what a publication says, where
    they are of one."""
    own = [name for name in IMPORTED if any(name in row for row in rows)]
    return [*own, *cells(dict.fromkeys(row["workload"] for row in rows))]


def comparison(names: Iterable[str]) -> list[str]:
    """Columns of a comparison of rounds of these workloads."""
    own = dimensions(names)
    return ["verdict", "baseline", "round", *CASE, *own, "case", *SETTINGS, *COMPARISON]


def beside(names: Iterable[str]) -> list[str]:
    """Columns of the verdicts on figures of others, of these workloads."""
    own = [name for name in IMPORTED if name != "kind"]
    return [*comparison(names), "margin", "baseline_case", *own]


def column(name: str) -> Column:
    """The column of this name: one of ALL, or a workload's own dimension; else text."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    for workload in workloads.NAMES:
        dimension = workloads.of(workload).dimensions.get(name)
        if dimension:
            own = Column(name, type(dimension.standard))
            return own._replace(heading=f"{own.title}, px") if dimension.key == "px" else own
    return Column(name)


def numbers(columns: Iterable[str]) -> dict[str, type]:
    """The types of those columns that hold numbers."""
    kinds = {name: column(name).kind for name in columns}
    return {name: kind for name, kind in kinds.items() if kind is not str}
