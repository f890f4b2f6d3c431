"""Types of single values in a config: words from a list, words of a pattern, lists.

Their errors carry what is allowed, so that a message can name the nearest one; and they describe
themselves in the JSON schema.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

from dlperf import frameworks

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


class CompilerName:
    """`default`, `off`, `on`, or a compiler of the frameworks that the round asks for.

    The frameworks come in the validation's context; without one, all are asked.
    """

    words = ("default", "off", "on")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"enum": [*self.words, False, True, *compilers(frameworks.NAMES)]}

    def check(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):
            value = "on" if value else "off"  # what YAML makes of a bare on or off
        asked = (info.context or {}).get("frameworks", frameworks.NAMES)
        allowed = (*self.words, *compilers(asked))
        if value not in allowed:
            what = "a compiler of the round's frameworks"
            raise PydanticCustomError("one_of", "is not {what}", {"what": what, "allowed": allowed})
        return value


Choices = Annotated[list[Item], Field(min_length=1, json_schema_extra={"uniqueItems": True})]


def compilers(names: Iterable[str]) -> list[str]:
    """The compilers of these frameworks, each once, without 'none'."""
    found = [
        name for framework in names for name in getattr(frameworks.find(framework), "COMPILERS", ())
    ]
    return [name for name in dict.fromkeys(found) if name != "none"]
