"""Every wrong setting can still be made: of the pages as they are, and as they could be written."""

import ast
from functools import cache
from pathlib import Path

import pytest
from edits import edited, found
from wrong import (
    Mutation,
    bert,
    electra,
    electra_squad,
    gpt,
    gpt_deepspeed,
    gpt_jax,
    gpt_megatron,
    gpt_mindspore,
    gpt_mxnet,
    gpt_oneflow,
    gpt_paddlepaddle,
    gpt_tensorflow,
    gpt_tensorflow1,
    insightface,
    insightface_jax,
    insightface_mindspore,
    insightface_mxnet,
    insightface_oneflow,
    insightface_paddlepaddle,
    insightface_tensorflow,
    resnet50,
    resnet50_mixup,
    sources_of,
    wide_deep,
)

#: Names that are the same in every page, and that edits use.
KNOWN = {"self", "run", "facts"}
ALL = [
    mutation
    for table in (
        *(resnet50.RESNET50, resnet50.INFER, resnet50.FOLDED, resnet50.QUALITY),
        resnet50_mixup.MIXUP,
        *(bert.BERT, bert.PADDED, bert.MICRO_STEPS),
        *(wide_deep.WIDE_DEEP, wide_deep.SHARDED, wide_deep.INFER, wide_deep.QUALITY),
        *(electra.ELECTRA, electra.QUALITY, electra.SIZES),
        *(insightface.INSIGHTFACE, insightface.HEADS, insightface.SAMPLERS, insightface.HALF),
        *(insightface_jax.INSIGHTFACE_JAX, insightface_jax.HALF),
        *(insightface_tensorflow.INSIGHTFACE_TENSORFLOW, insightface_tensorflow.HALF),
        insightface_mindspore.INSIGHTFACE_MINDSPORE,
        insightface_mxnet.INSIGHTFACE_MXNET,
        insightface_oneflow.SPLIT,
        insightface_paddlepaddle.INSIGHTFACE_PADDLEPADDLE,
        *(gpt.ALONE, gpt.SPLIT, gpt_jax.GPT_JAX, gpt_deepspeed.GPT_DEEPSPEED),
        gpt_megatron.GPT_MEGATRON,
        *(gpt_tensorflow.GPT_TENSORFLOW, gpt_tensorflow1.GPT_TENSORFLOW1, gpt_mxnet.GPT_MXNET),
        *(gpt_tensorflow.SPLIT, gpt_mindspore.SPLIT),
        *(gpt_oneflow.GPT_ONEFLOW, gpt_paddlepaddle.GPT_PADDLEPADDLE, gpt_mindspore.GPT_MINDSPORE),
        *(gpt_paddlepaddle.SPLIT, gpt_oneflow.SPLIT),
        *(electra_squad.SQUAD, electra_squad.INFER, electra_squad.QUALITY),
    )
    for mutation in table
    if mutation.edit
]


def title(mutation: Mutation) -> str:
    return f"{mutation.workload}, {mutation.framework}: {mutation.name}"


def local_names(function: ast.FunctionDef) -> set[str]:
    """What the function and those inside it assign or take, without KNOWN."""
    names = {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    names |= {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    return names - KNOWN


def functions_of(tree: ast.AST, prefix: str = "") -> list[str]:
    """The qualified names of a module's functions and of its classes' methods."""
    names = []
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            names.append(prefix + child.name)
        elif isinstance(child, ast.ClassDef):
            names += functions_of(child, f"{prefix}{child.name}.")
    return names


def renamed(source: str, names: dict[str, set[str]]) -> str:
    """The module with these local variables of its functions renamed."""
    tree = ast.parse(source)
    for name, variables in names.items():
        for function in found(tree, name):
            for each in ast.walk(function):
                if isinstance(each, ast.Name) and each.id in variables:
                    each.id = f"{each.id}_renamed"
                elif isinstance(each, ast.arg) and each.arg in variables:
                    each.arg = f"{each.arg}_renamed"
    return ast.unparse(tree)


@cache
def written(workload: str, framework: str) -> dict[Path, str]:
    return sources_of(workload, framework)


@cache
def reformatted(workload: str, framework: str) -> dict[Path, str]:
    """The same with other line breaks."""
    sources = written(workload, framework)
    return {path: ast.unparse(ast.parse(source)) for path, source in sources.items()}


@pytest.mark.parametrize("mutation", ALL, ids=title)
def test_a_wrong_setting_is_one_change_of_the_implementation_as_it_is(mutation):
    sources = written(mutation.workload, mutation.framework)
    path, wrong = edited(mutation.edit, sources)
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(sources[path]))
    compile(wrong, str(path), "exec")
    ast.parse(wrong, str(path), feature_version=(3, 7))


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(each, id=title(each), marks=[pytest.mark.full] * (place % 10 != 0))
        for place, each in enumerate(ALL)
    ],
)
def test_a_wrong_setting_survives_other_line_breaks_and_names(mutation):
    sources = written(mutation.workload, mutation.framework)
    path, wrong = edited(mutation.edit, sources)

    others = reformatted(mutation.workload, mutation.framework)
    assert edited(mutation.edit, others) == (path, wrong)

    tree = ast.parse(sources[path])
    names = {name: set().union(*map(local_names, found(tree, name))) for name in functions_of(tree)}
    others = {**sources, path: renamed(sources[path], names)}
    assert edited(mutation.edit, others) == (path, renamed(wrong, names))


def test_every_wrong_setting_has_a_name_of_its_own():
    keys = [
        (each.workload, each.variant, each.framework, each.name, each.precision, each.layout)
        for each in ALL
    ]
    assert len(keys) == len(set(keys))
