"""What a user wrote at each key of a config, where YAML reads something else.

YAML reads `no` as false, `12:30` as 750, `010` as 8 and `2026-11-25` as a date. In: YAML texts, and
the words of `--config`. Out: the text at each key, for messages, and the integers that YAML reads
as nobody would.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Place = tuple[Any, ...]

#: What YAML takes for an integer, although most readers take it for another one or for a time.
_OCTAL = re.compile(r"[-+]?0[0-7_]*[0-7]")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")


class Loader(yaml.SafeLoader):
    """YAML's safe loader; a key that stands twice is an error, not a silent loss of the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in keys[:number]:
                raise yaml.MarkedYAMLError(
                    problem=f"the key '{key.value}' stands here a second time",
                    problem_mark=key.start_mark,
                )
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Scalar:
    """A single value as it was written, and as it was read."""

    text: str
    value: Any
    by: str = ""  # where it was written, if not in the file

    @property
    def meaning(self) -> str:
        """What YAML reads: 'false', '750', 'the date 2026-11-25', 'nothing'."""
        if self.value is None:
            return "nothing"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, datetime.date):
            return f"the date {self.value}"
        return f"the number {self.value}"

    def __str__(self) -> str:
        return (self.text or "(empty)") + (f" ({self.by})" if self.by else "")


class Written(dict[Place, Scalar]):
    """The values that were written without quotes and are no words, by their place."""

    def at(self, place: Sequence[Any], value: Any) -> Scalar | None:
        """What was written where `value` was read; None where it is what it looks like."""
        scalar = self.get(tuple(place))
        return scalar if scalar and _same(scalar.value, value) else None

    def misread(self, data: Any) -> Iterator[tuple[Place, Scalar, str]]:
        """Integers of `data` that were written with a leading zero or as sixtieths, and why not."""
        for place, scalar in self.items():
            if isinstance(scalar.value, bool) or not isinstance(scalar.value, int | float):
                continue
            if self.at(place, _value_at(data, place)) is None:
                continue  # something else has replaced it
            if _SEXAGESIMAL.fullmatch(scalar.text):
                yield (
                    place,
                    scalar,
                    f"is {scalar.value} to YAML, which reads it in sixtieths; write the number",
                )
            elif _OCTAL.fullmatch(scalar.text):
                octal = int(scalar.text.replace("_", ""), 8)
                decimal = int(scalar.text.replace("_", ""))
                meant = f"{octal} or {decimal}" if octal != decimal else str(decimal)
                yield place, scalar, f"begins with 0, as octal numbers do; write {meant}"


def read(text: str) -> tuple[Any, Written]:
    """The content of a YAML text, and what was written in it. Raises yaml.YAMLError, ValueError."""
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, Written()
        data = loader.construct_document(node)
        return data, Written(_scalars(loader, node, (), set()))
    finally:
        loader.dispose()


def _scalars(
    loader: Loader, node: yaml.Node, place: Place, seen: set[int]
) -> Iterator[tuple[Place, Scalar]]:
    """The values below a node. What an alias stands for is written elsewhere."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(loader, value, (*place, loader.construct_object(key)), seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _scalars(loader, value, (*place, index), seen)
    elif isinstance(node, yaml.ScalarNode) and node.style is None:
        value = loader.construct_object(node)
        if not isinstance(value, str):
            yield place, Scalar(node.value, value)


def take_arguments(config: dict[str, Any], arguments: Sequence[str]) -> Written:
    """What was written in the words of `--config`, such as `steps={warmup: 2, measured: 4}`.

    Snakemake takes each value of such a section for text. In `config` they become what they would
    be in a file: numbers, true and false.
    """
    found = Written()
    for argument in arguments:
        key, _, text = argument.partition("=")
        by = f"--config {key}"
        try:
            data, inside = read(text)
            as_text = yaml.load(text, Loader=yaml.BaseLoader)
        except (yaml.YAMLError, ValueError, RecursionError):
            continue  # a word, which Snakemake takes as it is
        if isinstance(data, Mapping | list):
            _retype(config, {key: data}, {key: as_text})
            for place, scalar in inside.items():
                found[(key,) + place] = Scalar(scalar.text, scalar.value, by)
        elif not isinstance(config.get(key), str):
            found[key,] = Scalar(text, config.get(key), by)
    return found


def _retype(config: dict[str, Any], data: Mapping[Any, Any], as_text: Mapping[str, Any]) -> None:
    """Put values of `data` into `config` where it has the same as text."""
    for (name, text), value in zip(as_text.items(), data.values(), strict=False):
        if isinstance(value, Mapping) and isinstance(config.get(name), dict):
            _retype(config[name], value, text)
        elif name in config and config[name] == text:
            config[name] = value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _value_at(data: Any, place: Place) -> Any:
    """The value at a place of a config; None if there is none."""
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data
