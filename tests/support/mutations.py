"""The smallest wrong settings of each workload, as changes of an implementation's source.

Those of ResNet-50, BERT and Wide & Deep are in wrong/, those of ELECTRA beside this.
tests/certificates/test_mutations.py makes all. RIGHT has changes of nothing: the BERT of two layers
passes in every framework.
"""

from conftest import CPU_FRAMEWORKS
from electra_mutations import JAX, OF_THE_OPTIMIZER, ONEFLOW, PADDLEPADDLE, PYTORCH, TENSORFLOW1
from squad_mutations import MINDSPORE, MINDSPORE_INFER, MINDSPORE_QUALITY
from squad_mutations import OF_THE_OPTIMIZER as OF_SQUADS_OPTIMIZER
from squad_mutations import ONEFLOW as ONEFLOW_ON_SQUAD
from squad_mutations import TENSORFLOW1 as TENSORFLOW1_ON_SQUAD
from squad_mutations import WRONG as WRONG_ON_SQUAD
from wrong import TIMED, Mutation
from wrong.bert import BERT
from wrong.resnet50 import RESNET50
from wrong.wide_deep import SHARDED, WIDE_DEEP

from dlperf import frameworks, workloads

__all__ = ["BERT", "RESNET50", "SHARDED", "TIMED", "WIDE_DEEP", "Mutation"]

#: Those that change nothing are the small model as it is, which passes.
ELECTRA = [
    # what the optimiser alone shows needs the tier of given gradients
    Mutation(name, framework, compiler, *change, float64_only=name not in OF_THE_OPTIMIZER)
    for framework, compiler, wrong in (
        ("pytorch", "none", PYTORCH),
        ("jax", "xla", JAX),
        ("paddlepaddle", "none", PADDLEPADDLE),
        ("oneflow", "none", ONEFLOW),
        ("tensorflow1", "none", TENSORFLOW1),
    )
    for name, *change in (("as it is", "", ""), *wrong)
]
#: Of BERT's variant pad1: all implementations as they are, and one whose padding has a share.
PADDED = [
    Mutation(
        "a padded vocabulary",
        framework,
        frameworks.load(framework).DEFAULT_COMPILER["cpu"],
        old="",
        new="",
        float64_only=False,
    )
    for framework in CPU_FRAMEWORKS
]
PADDED += [
    Mutation(
        "padding that has a share",
        "pytorch",
        "none",
        "value=facts.PADDING_SCORE",
        "value=0.0",
        tier="float64-loss",
    )
]


def on_squad(name: str, layout: str = "1") -> list[Mutation]:
    """ELECTRA on SQuAD as it is, in each framework."""
    return [
        Mutation(
            name,
            framework,
            frameworks.load(framework).DEFAULT_COMPILER["cpu"],
            old="",
            new="",
            layout=layout,
            float64_only=False,
        )
        for framework in CPU_FRAMEWORKS
        if workloads.implements("electra_squad", framework)
    ]


def in_mindspore(wrong: tuple) -> list[Mutation]:
    """Without float64: it has none for this model."""
    return [Mutation(name, "mindspore", "graph", *change, **TIMED) for name, *change in wrong]


#: The same of ELECTRA on SQuAD: its training, its answers, and its training to a quality.
SQUAD = [
    *on_squad("as it is on SQuAD"),
    *on_squad("as it is on SQuAD", layout="dp2"),
    *(
        Mutation(name, "pytorch", "none", *change, float64_only=name not in OF_SQUADS_OPTIMIZER)
        for name, *change in WRONG_ON_SQUAD
    ),
    *(
        Mutation(name, framework, "none", *change, float64_only=name not in OF_SQUADS_OPTIMIZER)
        for framework, wrong in (
            ("tensorflow1", TENSORFLOW1_ON_SQUAD),
            ("oneflow", ONEFLOW_ON_SQUAD),
        )
        for name, *change in wrong
    ),
    *in_mindspore(MINDSPORE),
]
SQUAD_INFER = [*on_squad("answers on SQuAD as they are"), *in_mindspore(MINDSPORE_INFER)]
SQUAD_QUALITY = [*on_squad("to a quality on SQuAD"), *in_mindspore(MINDSPORE_QUALITY)]
RIGHT = [
    Mutation(
        "as it is",
        framework,
        frameworks.load(framework).DEFAULT_COMPILER["cpu"],
        old="",
        new="",
        layout=layout,
        float64_only=False,
    )
    for framework in CPU_FRAMEWORKS
    for layout in (("1", "dp2", "acc2") if framework == "pytorch" else ("1", "acc2"))
]
