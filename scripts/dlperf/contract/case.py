"""A case: what a repetition is asked to do; the one place that spells, parses and checks it.

A case's name is its path: what it says is what is passed on. A document
`{"schema", "identity", "settings"}` asks for one repetition; a record carries the same two keys, so
that `--case rep1.json` runs a recorded repetition again. An identity that lacks what ABSENT names
is read as if it had the standard value.
"""

import dataclasses
import math
import os
import re
from collections import OrderedDict
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

from dlperf.contract import strict_json
from dlperf.contract.dimension import Dimensions
from dlperf.contract.layout import BEFORE_BATCH, SPELLED, ZERO_STAGES, Layout
from dlperf.contract.layout import NAMES as LAYOUT

SCHEMA = "dlperf.case/2"
# The reason of a record that a cluster makes again.
NO_JOB = "%d nodes need a job of a cluster: snakemake --profile slurm"

SCENARIOS = ("train", "infer", "server", "quality")
#: Those in which a model only gives outputs: certified alike.
INFERRING = ("infer", "server")
#: Those whose window can have more steps than `measured_steps`, so that it lasts `minimum_seconds`.
PACED = ("train", "infer")
#: Where it is not said, by device: a window below a second shows a GPU before it is warm.
MINIMUM_SECONDS = {"cpu": 0, "cuda": 10}
#: `amp` is the mixed precision that suits the device best; the others ask for one narrow type.
PRECISIONS = ("fp32", "tf32", "amp", "amp_bf16", "amp_fp16")
DEVICES = ("cpu", "cuda")


class Field(NamedTuple):
    """A value of a document: its type, the least number, and the values that are allowed."""

    kind: Any
    least: Any = None
    words: Tuple[Any, ...] = ()


#: In the order that records and tables keep; a workload's own dimensions follow.
IDENTITY = OrderedDict(
    [
        ("round", Field(str)),
        ("workload", Field(str)),
        ("framework", Field(str)),
        ("scenario", Field(str, words=SCENARIOS)),
        ("precision", Field(str, words=PRECISIONS)),
        ("compiler", Field(str)),
        ("nodes", Field(int, 1)),
        ("devices_per_node", Field(int, 1)),
        ("layout", Field(dict)),
        ("batch_size", Field(int, 1)),
        ("searched", Field(str)),
        ("epochs", Field(int, 0)),
        ("arrival_rate", Field(int, 0)),
        ("data", Field(str)),
        ("repetition", Field(int, 1)),
    ]
)
#: What an identity that lacks a field stands for.
ABSENT = {"searched": "", "epochs": 0, "arrival_rate": 0}
SETTINGS = OrderedDict(
    [
        ("device", Field(str, words=DEVICES)),
        ("warmup_steps", Field(int, 1)),
        ("measured_steps", Field(int, 1)),
        ("cores_per_device", Field(int, 1)),
        ("timeout_seconds", Field((int, float), 1)),
        ("seed", Field(int, 0)),
        ("data_dir", Field(str)),
        ("evaluations", Field(int, 0)),
        ("target", Field((int, float), 0)),
        ("memory_limit_bytes", Field(int, 0)),
        ("minimum_seconds", Field((int, float), 0)),
    ]
)
#: What settings that lack a field stand for. memory_limit_bytes: of a device, 0 without a limit.
#: minimum_seconds: how long a window should last at least, 0: as long as `measured_steps` take.
UNSAID = {"evaluations": 0, "target": 0, "memory_limit_bytes": 0, "minimum_seconds": 0}
#: The fields of an identity's `layout`.
OF_LAYOUT = OrderedDict(
    [
        ("tensor_parallel", Field(int, 1)),
        ("pipeline_parallel", Field(int, 1)),
        ("zero_stage", Field(int, words=ZERO_STAGES)),
        ("accumulation", Field(int, 1)),
        ("activation_checkpointing", Field(bool)),
    ]
)
#: The identity as columns of a table: `layout` stands as its parts.
COLUMNS = tuple(column for name in IDENTITY for column in (LAYOUT if name == "layout" else (name,)))

_NAME = re.compile(
    r"(?P<scenario>[a-z]+)-(?P<precision>[a-z0-9_]+)(?:-(?P<compiler>[a-z0-9_]+))?"
    r"-(?P<nodes>\d+)n(?P<devices_per_node>\d+)d"
    r"(?:-tp(?P<tensor_parallel>\d+))?(?:-pp(?P<pipeline_parallel>\d+))?"
    r"(?:-zero(?P<zero_stage>\d+))?(?:-ckpt(?P<activation_checkpointing>\d+))?"
    r"-b(?P<batch_size>\d+|max)(?:-acc(?P<accumulation>\d+))?(?:-e(?P<epochs>\d+))?"
    r"(?:-r(?P<arrival_rate>\d+))?"
    r"-(?P<data>[a-z0-9_]+)(?P<dimensions>(?:-[a-z0-9_]+)*)"
)


class CaseError(ValueError):
    """A case that cannot be asked for; the message names source, keys and how to fix it."""


@dataclasses.dataclass(frozen=True)
class Case:
    """What a repetition is asked to do.

    searched: 'batch_size' or the dimension whose largest value a search finds, or ''. Its value is
    0 until it is found; the case's name has `max` in its place. epochs: of the quality scenario,
    else 0. arrival_rate: requests a second to a device that serves, else 0. together: whether it is
    asked for by its batch of all devices together. unsupported: why the framework cannot, or ''.
    """

    workload: str
    framework: str
    scenario: str
    precision: str
    compiler: str
    nodes: int
    devices_per_node: int
    layout: Layout
    batch_size: int
    data: str
    dimensions: Dimensions
    searched: str = ""
    epochs: int = 0
    arrival_rate: int = 0
    together: bool = dataclasses.field(default=False, compare=False)
    unsupported: str = dataclasses.field(default="", compare=False)

    @property
    def name(self):
        """Such as 'train-amp-xla-2n8d-b256-synthetic'; what is standard or absent is left out."""
        parts = [self.scenario, self.precision]
        if self.compiler != "none":
            parts.append(self.compiler)
        parts.append(self.topology)
        parts += self.layout.spelled(*BEFORE_BATCH)
        parts.append(self.batch)
        parts += self.layout.spelled("accumulation")
        parts += ["e%d" % self.epochs] if self.epochs else []
        parts += ["r%d" % self.arrival_rate] if self.arrival_rate else []
        return "-".join(parts + [self.data] + self.dimensions.spelled(self.searched))

    @property
    def batch(self):
        """'b256', or 'bmax' where the largest batch is searched."""
        return "bmax" if self.searched == "batch_size" else "b%d" % self.batch_size

    @property
    def folder(self):
        """The case's folder under results/<round>/runs/."""
        return "%s/%s/%s" % (self.workload, self.framework, self.name)

    @classmethod
    def parse(cls, folder, declared):
        """The case that a folder spells; `declared(workload)` gives a workload's dimensions.

        Raises ValueError for a folder that no case has, such as one with a standard value spelled
        out, or one of a workload that `declared` does not know (KeyError).
        """
        workload, framework, name = folder.split("/") if folder.count("/") == 2 else ("", "", "")
        match = _NAME.fullmatch(name)
        if not match:
            raise ValueError("not the folder of a case: %s" % folder)
        found = match.groupdict()
        layout = {
            key: type(standard)(int(found[key])) if found[key] else standard
            for key, (_, standard) in SPELLED.items()
        }
        try:
            dimensions, searched = Dimensions.parse(
                declared(workload), filter(None, found["dimensions"].split("-"))
            )
        except (KeyError, ValueError) as error:
            raise ValueError("not the folder of a case: %s: %s" % (folder, error))
        case = cls(
            workload,
            framework,
            found["scenario"],
            found["precision"],
            found["compiler"] or "none",
            int(found["nodes"]),
            int(found["devices_per_node"]),
            Layout(**layout),
            0 if found["batch_size"] == "max" else int(found["batch_size"]),
            found["data"],
            dimensions,
            "batch_size" if found["batch_size"] == "max" else searched,
            int(found["epochs"] or 0),
            int(found["arrival_rate"] or 0),
        )
        if case.folder != folder:
            raise ValueError(
                "not the folder of a case: %s; its case has %s" % (folder, case.folder)
            )
        return case

    @classmethod
    def of(cls, identity, declared):
        """The case of a document's identity; `declared` as of `parse`."""
        identity = upgraded(identity)
        names = declared(identity["workload"])
        return cls(
            layout=Layout(**identity["layout"]),
            dimensions=Dimensions(
                names, {name: identity[name] for name in names if name in identity}
            ),
            **{
                name: identity[name]
                for name in IDENTITY
                if name not in ("round", "repetition", "layout")
            },
        )

    def certificate(self, device):
        """The certificate of equal work that covers this case: its path under results/."""
        parts = [device, self.precision]
        if self.compiler != "none":
            parts.append(self.compiler)
        if self.variant:
            parts.append(self.variant)
        parts.append(self.proved)
        return "certificates/%s/%s/%s.json" % (self.workload, self.framework, "-".join(parts))

    @property
    def proved(self):
        """The name of the layout that its certificate is of: ranks that infer exchange nothing."""
        if self.scenario in INFERRING:
            return "1"
        return self.layout.proved(self.devices, self.nodes)

    @property
    def variant(self):
        """'', 'clip0', 'infer', 'fold1-infer', 'mixup1-quality': what its certificate is of."""
        last = "infer" if self.scenario in INFERRING else self.scenario
        last = "" if last == "train" else last
        return "-".join(filter(None, (self.dimensions.variant(), last)))

    @property
    def devices(self):
        return self.nodes * self.devices_per_node

    @property
    def topology(self):
        return "%dn%dd" % (self.nodes, self.devices_per_node)

    @property
    def global_batch_size(self):
        return self.layout.global_batch_size(self.batch_size, self.devices)

    @property
    def series(self):
        """The framework with its compiler: one line of a plot, one column of a table."""
        return self.framework if self.compiler == "none" else self.framework + "-" + self.compiler

    def sized(self, value):
        """The same case with `value` as what a search finds."""
        if self.searched == "batch_size":
            return dataclasses.replace(self, batch_size=value)
        sizes = dict(self.dimensions, **{self.searched: value})
        return dataclasses.replace(self, dimensions=Dimensions(self.dimensions.declared, sizes))

    def choosing(self, **words):
        """The same case with other choices of its dimensions."""
        dimensions = Dimensions(self.dimensions.declared, dict(self.dimensions, **words))
        return dataclasses.replace(self, dimensions=dimensions, unsupported="")

    def on(self, nodes, devices_per_node):
        """The same work on other devices."""
        return dataclasses.replace(
            self, nodes=nodes, devices_per_node=devices_per_node, unsupported=""
        )

    def identity(self, round, repetition):
        """The identity of a repetition, in the order that records keep."""
        own = {"round": round, "repetition": repetition}
        own["layout"] = dataclasses.asdict(self.layout)
        found = OrderedDict(
            (name, own[name] if name in own else getattr(self, name)) for name in IDENTITY
        )
        found.update(self.dimensions)
        return dict(found)

    def columns(self, round, repetition):
        """The identity as a table has it."""
        return flat(self.identity(round, repetition))


def made_as(scenario):
    """The scenario as which an implementation makes it ready: a server only asks for answers."""
    return "infer" if scenario in INFERRING else scenario


def upgraded(identity):
    """An identity with all its fields, in their order."""
    found = OrderedDict()
    for name in IDENTITY:
        if name in identity or name in ABSENT:
            found[name] = identity.get(name, ABSENT.get(name))
    found.update((name, value) for name, value in identity.items() if name not in IDENTITY)
    return dict(found)


def with_choices(identity, dimensions):
    """An identity with the standard one of each choice that it leaves out."""
    found = dict(identity)
    for name, each in dimensions.items():
        if each.is_choice:
            found.setdefault(name, each.standard)
    return found


def flat(identity):
    """An identity with the parts of `layout` in its place: COLUMNS, and the dimensions."""
    found = {}
    for name, value in upgraded(identity).items():
        if name == "layout":
            found.update((key, int(value[key])) for key in LAYOUT)
        else:
            found[name] = value
    return found


class Known(NamedTuple):
    """What documents may name: workloads, frameworks, and a workload's dimensions and data."""

    workloads: Sequence[str]
    frameworks: Sequence[str]
    dimensions: Callable[[str], Dict[str, Any]]
    data: Callable[[str], Sequence[str]]


def load(source, known):
    """Return the case document of `source`: its path, a record's path, or the JSON text itself.

    Raises CaseError with every problem found, one a line.
    """
    text, name = source, "--case"
    if not source.lstrip().startswith("{"):
        name = source
        try:
            with open(source, encoding="utf-8") as stream:
                text = stream.read()
        except OSError as error:
            raise CaseError("%s: cannot be read: %s" % (source, os.strerror(error.errno)))
    try:
        document = strict_json.parse(text)
    except ValueError as error:
        raise CaseError("%s: not JSON: %s" % (name, error))
    found = problems(document, known)
    if found:
        raise CaseError("\n".join("%s: %s" % (name, problem) for problem in found))
    identity = upgraded(document["identity"])
    identity = with_choices(identity, known.dimensions(identity["workload"]))
    return {"schema": SCHEMA, "identity": identity, "settings": document["settings"]}


def problems(document, known):
    """What is wrong with a case document, a line each."""
    if not isinstance(document, dict):
        return ["an object with the keys 'identity' and 'settings' is needed"]
    found = []
    for section, fields in (("identity", IDENTITY), ("settings", SETTINGS)):
        values = document.get(section)
        if not isinstance(values, dict):
            found.append("%s: missing; an object is needed" % section)
            continue
        values, fields = dict(values), dict(fields)
        dimensions = {}
        values = dict(ABSENT if section == "identity" else UNSAID, **values)
        if section == "identity":
            fields["framework"] = Field(str, words=tuple(known.frameworks))
            fields["workload"] = Field(str, words=tuple(known.workloads))
            if values.get("workload") in known.workloads:
                dimensions = known.dimensions(values["workload"])
                fields["data"] = Field(str, words=tuple(known.data(values["workload"])))
                sizes = [name for name, each in dimensions.items() if each.granule]
                fields["searched"] = Field(str, words=("", "batch_size", *sizes))
        for key, field in fields.items():
            found.extend(_value_problems("%s.%s" % (section, key), key, field, values))
        for key, each in dimensions.items():
            if key not in values and each.is_choice:
                continue  # the standard one
            problem = each.problem(values[key]) if key in values else "missing"
            found.extend(["%s.%s: %s" % (section, key, problem)] if problem else [])
        for key in sorted(set(values) - set(fields) - set(dimensions)):
            known_keys = ", ".join(list(fields) + list(dimensions))
            found.append("%s.%s: unknown key; known: %s" % (section, key, known_keys))
        if section == "identity" and not found:
            found.extend(_rate_problems(values))
            found.extend(_choice_problems(values, dimensions))
        if section == "identity" and isinstance(values.get("layout"), dict):
            found.extend(_layout_problems(values))
    if found:
        return found
    parts = document["identity"], document["settings"]
    return [*_quality_problems(*parts), *_pace_problems(*parts)]


def _quality_problems(identity, settings):
    """What the quality scenario must say, and no other scenario may."""
    trains, epochs = identity["scenario"] == "quality", identity.get("epochs", 0)
    tests, steps = settings.get("evaluations", 0), settings["measured_steps"]
    if trains != (epochs > 0):
        wanted = "at least 1 in the scenario quality" if trains else "0 but in the scenario quality"
        yield "identity.epochs: %d; %s" % (epochs, wanted)
    if trains and not 1 <= tests <= steps:
        yield "settings.evaluations: %d; from 1 to measured_steps, %d" % (tests, steps)


def _pace_problems(identity, settings):
    seconds = settings.get("minimum_seconds", 0)
    if not math.isfinite(seconds):
        yield "settings.minimum_seconds: %r; a finite number is needed" % seconds
    elif seconds and identity["scenario"] not in PACED:
        there = " and ".join(PACED)
        yield "settings.minimum_seconds: %g; 0 but in the scenarios %s" % (seconds, there)


def _rate_problems(identity):
    rate, serves = identity["arrival_rate"], identity["scenario"] == "server"
    if serves != (rate > 0):
        wanted = "at least 1 in the scenario server" if serves else "0 but in the scenario server"
        yield "identity.arrival_rate: %d; %s" % (rate, wanted)


def _choice_problems(identity, dimensions):
    """Choices of other scenarios."""
    for key, each in dimensions.items():
        value = identity.get(key, each.standard)
        if value != each.standard and not each.applies(identity["scenario"]):
            there = " and ".join(each.scenarios)
            yield "identity.%s: %r; %r but in the scenarios %s" % (key, value, each.standard, there)


def _layout_problems(identity):
    found, asked = [], identity["layout"]
    for key in sorted(set(asked) - set(OF_LAYOUT)):
        where = "identity.layout.%s" % key
        found.append("%s: unknown key; known: %s" % (where, ", ".join(OF_LAYOUT)))
    for key, field in OF_LAYOUT.items():
        found.extend(_value_problems("identity.layout.%s" % key, key, field, asked))
    devices = [identity.get(key) for key in ("nodes", "devices_per_node")]
    if not found and all(isinstance(each, int) and each > 0 for each in devices):
        problem = Layout(**asked).problem(devices[0] * devices[1])
        found.extend(["identity.layout: " + problem] if problem else [])
    return found


def _value_problems(where, key, field, values):
    if key not in values:
        return ["%s: missing" % where]
    value = values[key]
    if isinstance(value, bool) != (field.kind is bool) or not isinstance(value, field.kind):
        names = {str: "text", dict: "an object", bool: "true or false"}
        name = names.get(field.kind, "a number")
        return ["%s: %r is not %s" % (where, value, name)]
    if field.words and value not in field.words:
        return ["%s: %r; allowed: %s" % (where, value, ", ".join(map(str, field.words)))]
    if field.least is not None and value < field.least:
        return ["%s: %r; at least %d" % (where, value, field.least)]
    return []


def schema():
    """The JSON schema of a record's identity."""
    kinds = {str: "string", int: "integer", bool: "boolean", dict: "object"}
    properties = {}
    for name, field in IDENTITY.items():
        properties[name] = {"type": kinds[field.kind]}
        if field.kind is str and name not in ABSENT:
            properties[name]["minLength"] = 1
        if field.least is not None:
            properties[name]["minimum"] = field.least
    of_layout = {key: {"type": kinds[field.kind]} for key, field in OF_LAYOUT.items()}
    for key, field in OF_LAYOUT.items():
        if field.least is not None:
            of_layout[key]["minimum"] = field.least
        if field.words:
            of_layout[key]["enum"] = list(field.words)
    properties["layout"].update(
        properties=of_layout,
        required=list(OF_LAYOUT),
        additionalProperties=False,
    )
    return {
        "type": "object",
        "required": [name for name in IDENTITY if name not in ABSENT],
        "properties": properties,
        "additionalProperties": {"type": ["integer", "string"]},
    }
