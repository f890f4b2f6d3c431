"""What is wrong with a config, said so that a user can fix it: file, key, value, what is allowed.

In: a YAML file, or pydantic's errors. Out: a mapping, or a `ConfigError` with every problem.
"""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from dlperf.contract.words import OTHER_WORDS
from dlperf.contract.written import Scalar, Written, read

#: The most values that a config may have: some hundred times as many as the largest here.
MOST_VALUES = 100_000


@dataclass(frozen=True)
class Problem:
    """One wrong value (or missing key): what it is, and what could stand there."""

    key: str
    value: str
    message: str
    allowed: tuple[str, ...] = ()
    nearest: str = ""

    def __str__(self) -> str:
        value = f" {self.value}" if self.value else ""
        text = f"{self.key}:{value} {self.message}"
        if self.nearest:
            text += f"; did you mean '{self.nearest}'?"
        if self.allowed:
            text += f" [allowed: {', '.join(self.allowed)}]"
        return text


DEEP = Problem("the file", "", "its lists and sections are nested too deeply")


class ConfigError(Exception):
    """A config that cannot be used; its text has one line a problem, each with the file's name."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


def read_yaml(path: Path, source: str) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError where there is none."""
    return read_written(path, source)[0]


def read_written(path: Path, source: str) -> tuple[dict[str, Any], Written]:
    """The mapping in a YAML file, and what is written there. Raises ConfigError."""
    try:
        data, written = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = Problem("the file", "", f"cannot be read ({error.strerror})", (), _beside(path))
    except UnicodeDecodeError:
        problem = Problem("the file", "", "is not UTF-8 text")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        problem = Problem(where, "", f"not YAML: {error.problem}")
    except yaml.YAMLError as error:
        problem = Problem("the file", "", "not YAML: " + " ".join(str(error).split()))
    except ValueError as error:  # an impossible date, a number of 5,000 digits
        problem = Problem("the file", "", f"not YAML that can be read: {error}")
    except RecursionError:
        problem = DEEP
    else:
        if data is None:
            data = {}
        if isinstance(data, dict):
            check_size(data, source)
            return data, written
        problem = Problem("the file", "", "must hold keys and values, such as `round: laptop`")
    raise ConfigError(source, [problem])


def check_size(data: Any, source: str) -> None:
    """Raise ConfigError where `data` has too many values, or holds itself.

    A YAML file of ten lines can hold billions: each `*alias` stands for all that its `&anchor` has.
    Here each anchor is counted once.
    """
    sizes: dict[int, int | None] = {}  # of lists and mappings by id; None while it is counted

    def size(value: Any) -> int:
        if not isinstance(value, Mapping | list):
            return 1
        inside = value.values() if isinstance(value, Mapping) else value
        if id(value) not in sizes:
            sizes[id(value)] = None
            sizes[id(value)] = 1 + sum(map(size, inside))
        found = sizes[id(value)]
        if found is None:
            raise ConfigError(source, [Problem("the file", "", "an alias (`*`) holds itself")])
        return found

    try:
        count = size(data)
    except RecursionError:
        raise ConfigError(source, [DEEP]) from None
    if count > MOST_VALUES:
        message = f"holds {count:,} values, its aliases (`*`) written out; at most {MOST_VALUES:,}"
        raise ConfigError(source, [Problem("the file", "", message)])


def _beside(path: Path) -> str:
    """The file of that folder whose name is nearest to one that does not exist."""
    names = [entry.name for entry in path.parent.glob("*.yaml")]
    return "".join(str(path.with_name(name)) for name in nearest(path.name, names))


def nearest(word: object, words: Sequence[str]) -> list[str]:
    """The one of `words` that was probably meant; none where no spelling is near."""
    if OTHER_WORDS.get(str(word).lower()) in words:
        return [OTHER_WORDS[str(word).lower()]]
    lower = {name.lower(): name for name in words}
    return [lower[name] for name in difflib.get_close_matches(str(word).lower(), lower, 1, 0.6)]


def explain(
    error: ValidationError,
    model: type[BaseModel],
    written: Written | None = None,
    data: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """Pydantic's errors about `model` as problems, in the order of the errors.

    data: what was validated; a key that stands in the wrong section is looked for in its sections.
    """
    given = Written() if written is None else written
    return [
        _problem(dict(found), model, given, data or {}) for found in error.errors(include_url=False)
    ]


def _problem(
    found: dict[str, Any], model: type[BaseModel], written: Written, data: Mapping[str, Any]
) -> Problem:
    place = [part for part in found["loc"] if part != "[key]"]
    scalar = written.at(place, found["input"])
    key, value = key_path(place), str(scalar) if scalar else _shown(found["input"])
    if found["type"] == "extra_forbidden":
        allowed = tuple(_section(model, place[:-1]).model_fields)
        meant = "".join(nearest(place[-1], allowed)) or _elsewhere(place, model, data)
        return Problem(key, "", f"unknown key (its value is {value})", allowed, meant)
    if found["type"] == "invalid_key":
        where = key_path(place[:-1]) or "the file"
        message = (
            f"has a key that YAML reads as {Scalar('', found['input']).meaning}; a key is a word, "
            "and words such as `no`, `on` and `12` need quotes"
        )
        return Problem(where, "", message)
    field = _section(model, place[:-1]).model_fields.get(str(place[-1]))
    example = f", such as {_shown(field.examples[0])}" if field and field.examples else ""
    section = subsection(field.annotation) if field else None
    if found["type"] == "missing":
        return Problem(
            key, "", f"is missing{example}", tuple(section.model_fields if section else ())
        )
    if found["type"] == "model_type" and section:
        return Problem(key, value, "must be a section with keys", tuple(section.model_fields))
    allowed = tuple(found.get("ctx", {}).get("allowed", ()))
    quotes = _needs_quotes(found["type"], scalar, allowed) if scalar else ""
    if found["type"].endswith("_type"):
        kind = found["msg"].removeprefix("Input should be a valid ")
        return Problem(key, value, f"must be of the type {kind}{example}{quotes}")
    message = found["msg"].replace("Input should be", "must be").replace("List should", "must")
    meant = "".join(nearest(scalar.text if scalar else found["input"], allowed))
    return Problem(key, value, message + quotes, allowed, meant)


def _needs_quotes(kind: str, scalar: Scalar, allowed: Sequence[str]) -> str:
    """How a word is written that YAML takes for something else; "" where no word is asked for."""
    if not scalar.text or not (kind in ("pattern", "string_type") or scalar.text in allowed):
        return ""
    how = f"'\"{scalar.text}\"' to a shell" if scalar.by else f"'{scalar.text}'"
    return f": YAML reads {scalar.text} as {scalar.meaning}; a word needs quotes here, {how}"


def misread(data: Any, written: Written, known: Sequence[Problem]) -> list[Problem]:
    """Integers that YAML reads as another number than most readers would, unless a problem that is
    `known` says so of a word."""
    said = {problem.key for problem in known if "YAML reads" in problem.message}
    found = (
        Problem(key_path(place), str(scalar), message)
        for place, scalar, message in written.misread(data)
    )
    return [problem for problem in found if problem.key not in said]


def _shown(value: object) -> str:
    """A value as in the file, cut where a message would get too long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def key_path(place: Sequence[str | int]) -> str:
    """('workloads', 'resnet50', 'precisions', 0) -> 'workloads.resnet50.precisions[0]'."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def subsection(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `Resnet50 | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(subsection, get_args(annotation))), None)


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that a config may have, dotted, with its field."""
    for name, field in model.model_fields.items():
        yield prefix + name, field
        inner = subsection(field.annotation)
        if inner:
            yield from keys(inner, f"{prefix}{name}.")


def _section(model: type[BaseModel], place: Sequence[str | int]) -> type[BaseModel]:
    """The section at a place, or the last one on the way to it."""
    for part in place:
        field = model.model_fields.get(str(part))
        model = (subsection(field.annotation) if field else None) or model
    return model


def _elsewhere(place: Sequence[str | int], model: type[BaseModel], data: Mapping[str, Any]) -> str:
    """The full path of a key that stands in the wrong section: the nearest to where it stands, in a
    section that `data` has if there is one."""
    *sections, name = [str(part) for part in place if not isinstance(part, int)]

    def distance(path: str) -> tuple[int, int, int]:
        *above, _ = parts = path.split(".")
        there: Any = data
        missing = 0
        for each in above:
            there = there.get(each) if isinstance(there, Mapping) else None
            missing += there is None
        return -len(os.path.commonprefix([parts, sections])), missing, len(parts)

    found = [path for path, _ in keys(model) if path.split(".")[-1] == name]
    return min(found, key=distance, default="")


def repeated(
    data: Any, place: tuple[str | int, ...] = (), written: Written | None = None
) -> Iterator[Problem]:
    """Values that stand twice in a list.

    Like `plan.relations.without_batch_size`, it looks at a config as it was read, so that its
    problems are seen beside wrong values, and not only after these were fixed.
    """
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from repeated(value, (*place, key), written)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from repeated(value, (*place, index), written)
            if value in data[:index]:
                scalar = written.at((*place, index), value) if written else None
                shown = str(scalar) if scalar else repr(value)
                key = key_path((*place, index))
                yield Problem(key, shown, "stands twice in this list; leave one out")
