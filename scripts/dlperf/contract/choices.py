"""Types of single values in a config: words from a list, words of a pattern, lists.

Their errors carry what is allowed, so that a message can name the nearest one; and they describe
themselves in the JSON schema.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema

Item = TypeVar("Item")


@dataclass(frozen=True)
class OneOf:
    """One of these words; `what` says in a message what a word stands for."""

    what: str
    words: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def check(self, value: Any) -> Any:
        if value not in self.words:
            context = {"what": self.what, "allowed": self.words}
            raise PydanticCustomError("one_of", "is not {what}", context)
        return value


@dataclass(frozen=True)
class Pattern:
    """A word that matches a regular expression as a whole."""

    what: str
    expression: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self.expression}$"}

    def check(self, value: Any) -> Any:
        if not (isinstance(value, str) and re.fullmatch(self.expression, value)):
            raise PydanticCustomError("pattern", "is not {what}", {"what": self.what})
        return value


MAX = "max"


class OrMax:
    """A number, or `max`: the largest that fits, which a search finds."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        as_it_is = core_schema.plain_serializer_function_ser_schema(lambda value: value)
        return core_schema.no_info_wrap_validator_function(
            self.check, handler(source), serialization=as_it_is
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"const": MAX}, handler(schema["schema"])]}

    def check(self, value: Any, number: Any) -> Any:
        if isinstance(value, str) and value != MAX:
            raise PydanticCustomError("or_max", "is no number", {"allowed": (MAX,)})
        return value if value == MAX else number(value)


class OneOrMore:
    """A value, or a list of such values."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        one = handler(source)
        more = SchemaValidator(core_schema.list_schema(one, min_length=1))
        return core_schema.no_info_wrap_validator_function(
            lambda value, of_one: (more.validate_python if isinstance(value, list) else of_one)(
                value
            ),
            one,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        one = handler(schema["schema"])
        more = {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}
        return {"anyOf": [one, more]}


UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class Bytes:
    """An amount of memory that a process can begin with: '4 GB', '4 GiB', or a number of bytes."""

    least = 100 * 10**6

    expression = r"([0-9]+(?:\.[0-9]+)?) ?(MB|GB|TB|MiB|GiB|TiB)"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        text = {"type": "string", "pattern": f"^{self.expression}$"}
        return {"anyOf": [{"type": "integer", "minimum": self.least}, text]}

    def check(self, value: Any) -> int:
        match = re.fullmatch(self.expression, value) if isinstance(value, str) else None
        if match:
            value = int(float(match[1]) * UNITS[match[2]])
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value < 2**63:
            message = "is no amount of memory such as '4 GB' or '4 GiB', of 100 MB or more"
            raise PydanticCustomError("bytes", message)
        return value


Choices = Annotated[list[Item], Field(min_length=1, json_schema_extra={"uniqueItems": True})]


class Section(BaseModel):
    """What all sections share: unknown keys are errors, and a value has the type that it should."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
