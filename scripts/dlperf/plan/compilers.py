"""The compilers that a config may name."""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

from dlperf import frameworks


class CompilerName:
    """`default`, `off`, `on`, or a compiler of the frameworks that the round asks for.

    The frameworks come from the validation's context; without one, all frameworks count.
    """

    words = ("default", "off", "on")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"enum": [*self.words, False, True, *compilers(frameworks.NAMES)]}

    def check(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):
            value = "on" if value else "off"  # YAML reads a bare on or off as a boolean
        asked = (info.context or {}).get("frameworks", frameworks.NAMES)
        allowed = (*self.words, *compilers(asked))
        if value not in allowed:
            what = "a compiler of the round's frameworks"
            raise PydanticCustomError("one_of", "is not {what}", {"what": what, "allowed": allowed})
        return value


def compilers(names: Iterable[str]) -> list[str]:
    """The compilers of these frameworks, without duplicates and without 'none'."""
    there = [own for own in map(frameworks.find, names) if own]
    found = dict.fromkeys(compiler for own in there for compiler in own.compilers)
    return [name for name in found if name != "none"]
