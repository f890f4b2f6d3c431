"""Rows of a round's tables, typed: mypy knows the columns, and names one that is misspelt.

At run time a row is a plain dict, as schema.files reads it. Columns and their order are those of
columns.py, and a test holds these classes to it. Not every row has every column: imported rounds
have more, and what failed has fewer.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from dlperf.analysis.schema.files import read_table

#: A number where there is one, else None: which it is, the row's status says.
Maybe = Any


def value_of(row: Mapping[str, Any], name: str) -> Any:
    """The value of a column whose name is put together: the one place that mypy cannot check."""
    return row[name]


class Case(TypedDict, total=False):
    """What rows of all tables of a round have: a case."""

    table: str
    case: str
    workload: str
    framework: str
    scenario: str
    precision: str
    compiler: str
    nodes: int
    devices_per_node: int
    tensor_parallel: int
    pipeline_parallel: int
    zero_stage: int
    accumulation: int
    activation_checkpointing: int
    batch_size: int
    searched: str
    epochs: int
    arrival_rate: int
    data: str


class Asked(Case, total=False):
    """How a case was asked for."""

    round: str
    global_batch_size: Maybe
    device: str
    cores_per_device: Maybe
    warmup_steps: int
    measured_steps: int
    minimum_seconds: Maybe
    memory_limit_bytes: Maybe


class Measurement(Asked, total=False):
    """A row of measurements.tsv.gz: a repetition."""

    implementation: str
    published_table: str
    batch_label: str
    hardware: str
    estimator: str
    unsaid: str
    kind: str
    source: str
    repetition: int
    status: str
    reason: str
    throughput: Maybe
    step_time: Maybe
    memory: Maybe
    energy: Maybe
    tokens: Maybe
    tflops: Maybe
    hardware_tflops: Maybe
    latency_mean: Maybe
    latency_p50: Maybe
    latency_p90: Maybe
    latency_p95: Maybe
    latency_p99: Maybe
    latency_max: Maybe
    utilisation: Maybe
    server_p50: Maybe
    server_p90: Maybe
    server_p95: Maybe
    server_p99: Maybe
    score: Maybe
    seconds_to_target: Maybe
    samples_to_target: Maybe
    score_best: Maybe
    exact_match: Maybe
    generator_loss: Maybe
    discriminator_loss: Maybe
    training_seconds: Maybe
    first_phase_seconds: Maybe
    second_phase_seconds: Maybe
    final_training_loss: Maybe
    outlier: str
    unit: str
    samples: Maybe
    timed_steps: Maybe
    trial_seconds: Maybe
    window_seconds: Maybe
    window_start_utc: str
    window_end_utc: str
    clock: str
    step_seconds_median: Maybe
    step_seconds_min: Maybe
    step_seconds_max: Maybe
    loader_share: Maybe
    loss_first: Maybe
    loss_last: Maybe
    weights_change: Maybe
    weights_unchanged: Maybe
    weights_distinct: Maybe
    outputs_projection: Maybe
    outputs_norm: Maybe
    host_peak_rss_bytes: Maybe
    device_peak_bytes: Maybe
    device_total_peak_bytes: Maybe
    energy_joules: Maybe
    gpu: str
    gpu_driver: str
    throttled: str
    placement: str
    nodes_used: str
    peak_precision: str
    cuda_graphs: str
    ran_beside_sha256: str
    unvouched: str
    hostname: str
    cpu: str
    cores: Maybe
    cores_allowed: Maybe
    memory_bytes: Maybe
    os: str
    kernel: str
    governor: str
    load_before: Maybe
    idle_share_before: Maybe
    foreign_cpu_share: Maybe
    cpu_time_over_wall: Maybe
    clock_mhz_before: Maybe
    clock_mhz_after: Maybe
    gpu_clock_mhz_before: Maybe
    gpu_clock_mhz_after: Maybe
    gpu_clock_mhz_within: Maybe
    gpu_power_capped_share: Maybe
    gpu_power_limit_watts: Maybe
    startup_seconds: Maybe
    warmup_seconds: Maybe
    git_commit: str
    git_dirty: str
    config_sha256: str
    case_sha256: str
    code_sha256: str
    lock_sha256: str
    freeze_sha256: str
    data_manifest_sha256: str
    python: str
    start_utc: str
    end_utc: str
    seconds_total: Maybe
    scheduler_job: str
    scheduler_job_start_utc: str
    record: str
    record_sha256: str


class Cell(Asked, total=False):
    """A row of cells.tsv: a case by one metric."""

    implementation: str
    published_table: str
    batch_label: str
    hardware: str
    estimator: str
    unsaid: str
    kind: str
    source: str
    metric: str
    better: str
    status: str
    reason: str
    n_ok: int
    n_asked: int
    n_oom: int
    n_timeout: int
    n_crashed: int
    n_missing: int
    unit: str
    median: Maybe
    median_low: Maybe
    median_high: Maybe
    coverage: Maybe
    cv: Maybe
    mean: Maybe
    deviation: Maybe
    minimum: Maybe
    maximum: Maybe
    detectable: Maybe
    n_outliers: Maybe
    rank: Maybe
    rank_last: Maybe
    ratio: Maybe
    ratio_low: Maybe
    ratio_high: Maybe
    efficiency: Maybe
    efficiency_low: Maybe
    efficiency_high: Maybe
    ratio_coverage: Maybe
    precision_base: str
    precision_ratio: Maybe
    precision_ratio_low: Maybe
    precision_ratio_high: Maybe
    precision_ratio_coverage: Maybe
    together_ratio: Maybe
    together_ratio_low: Maybe
    together_ratio_high: Maybe
    together_ratio_coverage: Maybe
    bubble: Maybe
    idle: Maybe
    idle_low: Maybe
    idle_high: Maybe
    idle_coverage: Maybe
    convergence: str
    convergence_ratio: Maybe
    convergence_low: Maybe
    convergence_high: Maybe
    convergence_p: Maybe
    loader_share: Maybe
    loss_first: Maybe
    loss_last: Maybe
    host_peak_rss_bytes: Maybe
    device_peak_bytes: Maybe
    flops_per_sample: Maybe
    peak_precision: str
    peak_stated_tflops: Maybe
    peak_measured_tflops: Maybe
    mfu_stated: Maybe
    mfu_measured: Maybe
    certificate: str
    check: str
    flags: str
    over: str
    together: Maybe


class Certificate(TypedDict, total=False):
    """A row of certificates.tsv: a tier of a certificate."""

    workload: str
    framework: str
    device: str
    precision: str
    compiler: str
    variant: str
    layout: str
    status: str
    tier: str
    tier_passed: str
    measured: Maybe
    tolerance: Maybe
    worst_tensor: str
    worst_step: Maybe
    reason: str
    start_utc: str
    git_commit: str
    code_sha256: str
    lock_sha256: str
    seconds: Maybe
    processor: str
    released: str
    certificate: str
    certificate_sha256: str


class Check(TypedDict, total=False):
    """A row of checks.tsv: a tier of a case's spot check."""

    workload: str
    framework: str
    case: str
    status: str
    tier: str
    tier_passed: str
    measured: Maybe
    tolerance: Maybe
    worst_tensor: str
    reason: str
    code_sha256: str
    lock_sha256: str
    ran_beside_sha256: str
    unvouched: str
    spot_run: str
    spot_run_sha256: str
    replay: str
    replay_sha256: str


class Parity(TypedDict, total=False):
    """A row of parity.tsv: what processes of a case reported of a setting."""

    workload: str
    framework: str
    scenario: str
    precision: str
    compiler: str
    case: str
    table: str
    nodes: int
    devices_per_node: int
    key: str
    value: str
    repetitions: int


class Limit(TypedDict, total=False):
    """A row of limits.tsv: what one device can do at most."""

    basis: str
    device_name: str
    node: str
    what: str
    precision: str
    at_once: Maybe
    limit: Maybe
    limit_unit: str
    source: str
    source_sha256: str


class Comparison(Case, total=False):
    """A row of a comparison: a cell beside the same one of another round."""

    verdict: str
    baseline: str
    round: str
    device: str
    cores_per_device: Maybe
    warmup_steps: int
    measured_steps: int
    minimum_seconds: Maybe
    memory_limit_bytes: Maybe
    reason: str
    metric: str
    better: str
    unit: str
    baseline_median: Maybe
    median: Maybe
    ratio: Maybe
    ratio_low: Maybe
    ratio_high: Maybe
    ratio_coverage: Maybe
    p: Maybe
    p_corrected: Maybe
    baseline_n_ok: Maybe
    baseline_n_asked: Maybe
    n_ok: int
    n_asked: int
    baseline_certificate: str
    certificate: str
    baseline_flags: str
    flags: str
    differs: str


class Beside(Comparison, total=False):
    """A row of beside.tsv: a cell of somebody else's, with the one that was measured here."""

    margin: float
    baseline_case: str
    implementation: str
    published_table: str
    batch_label: str
    hardware: str
    estimator: str
    unsaid: str
    source: str


class Curve(Case, total=False):
    """A row of curves.tsv.gz: a test of a training."""

    repetition: int
    samples: Maybe
    seconds: Maybe
    score: Maybe
    training_loss: Maybe
    target: Maybe


def read_cells(path: str | Path) -> list[Cell]:
    """The rows of cells.tsv, or of a table of cells. Raises as read_table does."""
    return cast(list[Cell], read_table(path))


def read_measurements(path: str | Path, only: Sequence[str] = ()) -> list[Measurement]:
    """The rows of measurements.tsv.gz; `only` as of read_table."""
    return cast(list[Measurement], read_table(path, only))


def read_checks(path: str | Path) -> list[Check]:
    """The rows of checks.tsv."""
    return cast(list[Check], read_table(path))


def read_certificates(path: str | Path) -> list[Certificate]:
    """The rows of certificates.tsv."""
    return cast(list[Certificate], read_table(path))


def read_parity(path: str | Path) -> list[Parity]:
    """The rows of parity.tsv."""
    return cast(list[Parity], read_table(path))


def read_curves(path: str | Path) -> list[Curve]:
    """The rows of curves.tsv.gz."""
    return cast(list[Curve], read_table(path))


def read_beside(path: str | Path) -> list[Beside]:
    """The rows of beside.tsv."""
    return cast(list[Beside], read_table(path))


def read_limits(path: str | Path) -> list[Limit]:
    """The rows of limits.tsv."""
    return cast(list[Limit], read_table(path))
