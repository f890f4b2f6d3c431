"""The sections of this project's workloads, made from what their facts declare.

In: the data, dimensions and quality of each workload (`workloads/<w>/facts.py`). Out: the model
`Workloads`, which has a key for each workload, with the keys that only this workload has.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, create_model

from dlperf import workloads
from dlperf.contract.choices import Choices, OneOf, OneOrMore, OrMax, Section
from dlperf.contract.dimension import Dimension
from dlperf.plan.sections import Also, Inference, Quality, Workload


def _section(name: str) -> type[Workload]:
    """The section of a workload: the common keys, its kinds of data and its own dimensions."""
    workload, fields = workloads.of(name), dict[str, Any]()
    described = "; ".join(f"`{kind}`: {each.description}" for kind, each in workload.data.items())
    fields["data"] = (
        _words("a kind of data", workload.data),
        Field(default=["synthetic"], description=f"{described}.", examples=[["sample"]]),
    )
    for key, each in workload.dimensions.items():
        kind, standard = _type_of(each)
        field = Field(default=standard, description=each.description, examples=list(each.examples))
        fields[key] = (kind, field)
    text = "The kinds of data of `infer`, if they differ from those of training."
    of_infer = Field(default=None, description=text, examples=[["synthetic"]])
    differing = {"data": (_words("a kind of data", workload.data) | None, of_infer)}
    infer = _made(f"{name}_infer", Inference, Inference.__doc__ or "", differing)
    fields["infer"] = (infer | None, Workload.model_fields["infer"])
    # mypy knows no types that are made when it runs
    fields["also"] = (list[_also(name)], Workload.model_fields["also"])  # type: ignore[misc]
    if any(each.tests for each in workload.data.values()):
        fields["quality"] = (_quality(name) | None, Workload.model_fields["quality"])
    return _made(name, Workload, f"{workload.title}: {workload.summary}", fields)


def _quality(name: str) -> type[Quality]:
    """The section `quality` of a workload: its data with a test set, and its own sizes."""
    workload, fields = workloads.of(name), dict[str, Any]()
    assert workload.quality, f"{name}/facts.py: data with a test set, and no quality"
    score = workload.quality.score
    tested = [kind for kind, each in workload.data.items() if each.tests]
    usual = list(dict.fromkeys(workload.data[kind].target for kind in tested))
    text = (
        f"{score.description} Records have the whole curve, so another target needs no new "
        "run. By default, the usual one for the data."
    )
    of_target = Field(default=None, gt=0, le=score.most, description=text, examples=usual)
    fields["target"] = (float | None, of_target)
    text = "The kinds of data with a test set."
    fields["data"] = (
        _words("a kind of data with a test set", tested),
        Field(default=tested[:1], description=text, examples=[tested[:1]]),
    )
    for own, each in workload.dimensions.items():
        if not each.is_choice:
            text = f"The same for `quality`, if it differs: {each.description}"
            field = Field(default=None, description=text, examples=list(each.examples))
            fields[own] = (_type_of(each)[0] | None, field)
    return _made(f"{name}_quality", Quality, Quality.__doc__ or "", fields)


def _also(name: str) -> Any:
    """The entries of `also` of a workload: with its kinds of data and its own dimensions."""
    workload, fields = workloads.of(name), dict[str, Any]()
    text = "Kinds of data, instead of those of the section."
    field = Field(default=None, description=text, examples=[["synthetic"]])
    fields["data"] = (_words("a kind of data", workload.data) | None, field)
    for own, each in workload.dimensions.items():
        field = Field(
            default=None,
            description="Instead of that of the section.",
            examples=list(each.examples),
        )
        fields[own] = (_type_of(each)[0] | None, field)
    return _made(f"{name}_also", Also, Also.__doc__ or "", fields)


def _words(what: str, words: Iterable[str]) -> Any:
    """The type of a list of these words: Any, as mypy knows no types that are made when it runs."""
    word: Any = Annotated[str, OneOf(what, tuple(words))]
    return Choices[word]


def _made(name: str, base: Any, text: str, fields: dict[str, Any]) -> Any:
    """A section of its own fields beside those of `base`: 'wide_deep' -> WideDeep."""
    title = "".join(part.capitalize() for part in name.split("_"))
    model = create_model(title, __base__=base, __doc__=text, **fields)
    return globals().setdefault(title, model)  # pickle looks for it there


def _type_of(dimension: Dimension) -> tuple[Any, Any]:
    """(type, default) of a dimension's key: a size, or a list of choices."""
    if not dimension.is_choice:
        size: Any = Annotated[int, Field(ge=dimension.minimum, le=dimension.maximum)]
        size = Annotated[size, OrMax()] if dimension.granule else size
        return Annotated[size, OneOrMore()], dimension.standard
    if set(dimension.words) == {0, 1}:
        return Choices[bool], [bool(dimension.standard)]
    return _words("a choice", map(str, dimension.words)), [dimension.standard]


def _sections() -> type[BaseModel]:
    """A model with a key for each workload that has facts."""
    fields: dict[str, Any] = {
        name: (_section(name) | None, Field(default=None, description=f"{_title(name)}."))
        for name in workloads.NAMES
    }
    text = "The workloads of the round. Workloads that are not listed are not measured."
    return create_model("Workloads", __base__=_Workloads, __doc__=text, **fields)


def _title(name: str) -> str:
    return workloads.of(name).title


class _Workloads(Section):
    def asked(self) -> dict[str, Workload]:
        """The workloads that the round asks for, by name."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: section for name, section in sections.items() if section is not None}


if TYPE_CHECKING:  # its keys are only known when it is imported
    Workloads = _Workloads
else:
    Workloads = _sections()
