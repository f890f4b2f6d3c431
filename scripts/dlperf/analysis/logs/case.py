"""The case that a log is of: what the user says of it, compared with what the log says itself."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlperf import frameworks, workloads
from dlperf.analysis.logs.entries import Entry, Read
from dlperf.analysis.logs.window import Window
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract.layout import SPELLED as WAYS
from dlperf.contract.layout import Layout
from dlperf.workloads.cases import layout_of_row

#: Keys of --case, without the workload's own dimensions; those with a value may be left out.
KEYS: dict[str, str | None] = {
    "framework": "",  # the source's own
    "implementation": "",
    "workload": None,
    "scenario": "train",
    "precision": None,
    "compiler": "",  # nothing is said; 'none' is a statement
    "nodes": None,
    "devices_per_node": None,
    "batch_size": None,
    "data": None,
    "repetition": "1",
}
_WHOLE = ("nodes", "devices_per_node", "batch_size", "repetition")
#: Workloads of public scripts that have no implementation here -> what they count. Their own
#: dimensions are the user's to name.
ELSEWHERE = {"dlrm": "samples"}
#: How a model is spread over devices; the global batch says how many micro-steps an update has.
SPREAD = tuple(name for name in WAYS if name != "accumulation")
#: Precisions in which the log's 'amp' or 'fp16' is on.
_MIXED = ("amp", "fp16", "bf16")


@dataclass(frozen=True)
class Case:
    """`values` in the order of KEYS; `global_batch_size` in samples a step of all devices."""

    values: dict[str, Any]
    dimensions: dict[str, int | str]
    global_batch_size: int

    @property
    def devices(self) -> int:
        return int(self.values["nodes"]) * int(self.values["devices_per_node"])

    @property
    def layout(self) -> Layout:
        """How the model is spread, without accumulation."""
        return layout_of_row(
            {name: self.dimensions.get(name, standard) for name, (_, standard) in WAYS.items()}
        )

    @property
    def replicas(self) -> int:
        """Model replicas, each of which has `batch_size` samples a micro-step."""
        return self.layout.data_parallel(self.devices)

    @property
    def unit(self) -> str:
        workload = self.values["workload"]
        known = workload in workloads.NAMES
        return f"{workloads.of(workload).unit if known else ELSEWHERE[workload]}/s"


def parse(pairs: Sequence[str], global_batch_size: int | None) -> Case:
    """A case from 'key=value's. Raises AnalysisError for what is missing, unknown or no number."""
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise AnalysisError(f"--case {pair}: must be key=value, such as batch_size=128")
        if key in given:
            raise AnalysisError(f"--case {pair}: {key} is given twice")
        given[key] = value
    dimensions = _dimensions(given)
    values: dict[str, Any] = {}
    for key, standard in KEYS.items():
        if key not in given and standard is None:
            raise AnalysisError(f"--case: {key} is missing")
        text = given.get(key, standard or "")
        values[key] = _whole(key, text) if key in _WHOLE else _word(key, text)
    if values["framework"] and values["framework"] not in frameworks.NAMES:
        known = ", ".join(frameworks.NAMES)
        raise AnalysisError(
            f"--case framework={values['framework']}: is not a framework [allowed: {known}]"
        )
    case = Case(values, dimensions, global_batch_size or 0)
    if problem := case.layout.problem(case.devices):
        raise AnalysisError(f"--case: {problem}")
    return replace(
        case, global_batch_size=global_batch_size or case.replicas * values["batch_size"]
    )


def _dimensions(given: Mapping[str, str]) -> dict[str, int | str]:
    """The workload's own dimensions, each with its value or the standard one, and how the model is
    spread, where that is given."""
    workload = given.get("workload", "")
    if workload in workloads.NAMES:
        own = workloads.of(workload).dimensions
        spread = [name for name in SPREAD if name in workloads.of(workload).ways]
        allowed = [*KEYS, *own, *spread]
        for key in given:
            if key not in allowed:
                raise AnalysisError(
                    f"--case {key}={given[key]}: unknown key [allowed: {', '.join(allowed)}]"
                )
        return {
            **{
                name: _whole(name, given[name], least=0) if name in given else dimension.standard
                for name, dimension in own.items()
            },
            **{
                name: _whole(name, given[name], least=int(WAYS[name][1]))
                for name in spread
                if name in given
            },
        }
    if workload not in ELSEWHERE:
        known = ", ".join([*workloads.NAMES, *ELSEWHERE])
        raise AnalysisError(f"--case workload={workload}: is not a workload [allowed: {known}]")
    return {key: _word(key, value) for key, value in given.items() if key not in KEYS}


def _whole(key: str, text: str, least: int = 1) -> int:
    if not re.fullmatch(r"\d{1,12}", text) or int(text) < least:
        raise AnalysisError(f"--case {key}={text}: must be a whole number, at least {least}")
    return int(text)


def _word(key: str, text: str) -> str:
    if key != "implementation" and not re.fullmatch(r"[a-z0-9_]*", text):
        raise AnalysisError(f"--case {key}={text}: must be a word of a-z, 0-9 and _")
    return text


def check(case: Case, reads: Sequence[Read], windows: Sequence[Window]) -> list[str]:
    """Hold the case against what the logs say. Raises AnalysisError where they contradict it.

    Returns what none of them says, of batch, devices and precision: the case's word alone.
    """
    said: set[str] = set()
    for read in reads:
        framework = case.values["framework"]
        if not framework and not read.form.framework:
            raise AnalysisError("--case: framework is missing, and the log does not say it")
        if framework and read.form.framework and framework != read.form.framework:
            raise AnalysisError(
                f"{read.log.path}: its lines are those of {read.form.implementation} "
                f"({read.form.framework}), but the case says framework={framework}"
            )
        said |= _check_settings(case, read)
    for window in windows:
        if _check_batches(case, window):
            said.add("global_batch_size")
    if "devices_per_node" in said and ("nodes" in said or case.values["nodes"] == 1):
        said.add("devices")
    if len(windows) == case.devices > 1:
        said.add("devices")
    groups = {
        "batch": {"batch_size", "global_batch_size"},
        "devices": {"devices"},
        "precision": {"precision"},
    }
    return [name for name, settings in groups.items() if not settings & said]


def _check_settings(case: Case, read: Read) -> set[str]:
    """Which settings the log says."""
    said: dict[str, dict[str, int]] = {}  # setting -> value -> line
    for line in read.lines:
        for stated in read.stated:
            if value := stated.of(line.text):
                said.setdefault(stated.setting, {}).setdefault(value, line.number)
    # 'dtype: float16' and 'amp: False' in one list of settings mean mixed precision
    if any(kind in said.get("precision", {}) for kind in _MIXED):
        said["precision"].pop("fp32", None)
    asked = {
        **{key: str(case.values[key]) for key in ("nodes", "devices_per_node", "batch_size")},
        "devices": str(case.devices),
        "global_batch_size": str(case.global_batch_size),
        "accumulation": f"{case.global_batch_size / case.values['batch_size'] / case.replicas:g}",
        "precision": case.values["precision"],
    }
    for setting, values in said.items():
        for value, number in values.items():
            if not _agree(setting, value, asked[setting]):
                given = case.values.get(setting, asked[setting])
                raise AnalysisError(
                    f"{read.log.path}: line {number} says {setting} {value}, but the case says "
                    f"{given}{_mend(setting)}"
                )
    return set(said)


def _agree(setting: str, said: str, asked: str) -> bool:
    if setting != "precision" or said == asked:
        return said == asked
    if said in _MIXED and asked in _MIXED:
        return "amp" in (said, asked)  # which does not say of which kind
    return said not in _MIXED and asked not in _MIXED


def _check_batches(case: Case, window: Window) -> bool:
    """The global batch that lines print, or that follows from the samples which they count.

    Returns whether there was any.
    """
    path = window.read.log.path
    before = window.start.number_of("samples") if window.start else None
    found = False
    for entry, covered in zip(window.entries, window.covered, strict=True):
        samples = entry.number_of("samples")
        printed = entry.number_of("global_batch")
        if printed is None and samples is not None and before is not None:
            printed = (samples - before) / covered
        before = samples
        rounding = 0.0
        if printed is None and (batch := _batch(entry)) is not None:
            printed = batch * (case.replicas if window.read.form.printed_by == "rank" else 1)
            rounding = 0.01
        found = found or printed is not None
        if printed is not None and abs(printed / case.global_batch_size - 1) > rounding:
            raise AnalysisError(
                f"{path}: line {entry.number} (step {entry.step}) is of {printed:g} samples a "
                f"step, but the case's global batch is {case.global_batch_size}"
                f"{_mend('global_batch_size')}"
            )
    return found


def _batch(entry: Entry) -> float | None:
    """Samples of a step, of whom prints it: as printed, or as a rate x the duration beside it."""
    rate, seconds = entry.number_of("running_rate"), entry.number_of("running_step_seconds")
    if "batch" in entry.values:
        return entry.number_of("batch")
    return None if rate is None or seconds is None else rate * seconds


def _mend(setting: str) -> str:
    if setting == "accumulation":
        return " (batch_size x devices x accumulation is the --global-batch-size)"
    if setting == "global_batch_size":
        return " (batch_size x devices, or --global-batch-size)"
    return ""


def names(dimensions: Iterable[str]) -> list[str]:
    """Columns of a case in the table of repetitions, repetition left out."""
    return [*(key for key in KEYS if key != "repetition"), *dimensions]
