"""The plan of a round: its cases, their names, their order."""

import json
import sys
from collections import Counter

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from known_framework import known_framework

from dlperf import frameworks, plan, workloads
from dlperf.contract.dimension import Dimensions
from dlperf.contract.layout import NAMES, Layout, Proved
from dlperf.loaders import libraries
from dlperf.plan import Case, document, expand, load, order
from dlperf.workloads.cases import base_case, case_of, case_of_row, parse_case


def no_mixed_precision_on_cpu(case):
    return "no effect on CPU" if (case["precision"], case["device"]) == ("amp", "cpu") else ""


@pytest.fixture(autouse=True)
def four_frameworks(monkeypatch):
    """Frameworks as a plan sees them; hugectr is a name without a module."""
    known = {
        "pytorch": known_framework("PyTorch", ["inductor"]),
        "paddlepaddle": known_framework("PaddlePaddle", ["cinn", "static"]),
        "oneflow": known_framework("OneFlow", ["graph"], unsupported=no_mixed_precision_on_cpu),
        "jax": known_framework("JAX", ["xla"], default="xla"),
    }
    for each in ("find", "of"):
        monkeypatch.setattr(frameworks, each, known.get)
    monkeypatch.setattr(
        workloads, "implements", lambda workload, name, scenario="train": name != "hugectr"
    )


def config(frameworks=("pytorch", "jax"), **changes):
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8], "amp": [16]}}
    own = {name: changes.pop(name) for name in list(changes) if name in section_keys}
    return load(
        {
            "round": "mine",
            "device": "cpu",
            "frameworks": list(frameworks),
            "workloads": {"resnet50": {**section, **own}},
            "topologies": ["1n1d"],
            **changes,
        }
    )


section_keys = (
    *("precisions", "compilers", "batch_sizes", "data", "image_size"),
    *("scenarios", "fold", "quality"),
)


def names(config):
    return [f"{case.framework}/{case.name}" for case in expand(config)]


def test_a_case_is_made_of_every_combination_of_the_lists():
    round = config(
        precisions=["fp32", "amp"],
        compilers=["off", "on"],
        data=["synthetic", "sample"],
        topologies=["1n1d", "2n8d"],
    )
    assert len(expand(round)) == 2 * 2 * 2 * 2 * 2
    assert len(set(expand(round))) == 32


def test_a_section_and_what_it_adds_run_in_frameworks_of_their_own():
    also = [{"frameworks": ["jax"], "batch_sizes": {"fp32": [4]}}]
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "also": also}
    section["frameworks"] = ["pytorch", "jax"]
    round = config(["mxnet"], workloads={"resnet50": section})
    assert names(round) == [
        "pytorch/train-fp32-1n1d-b8-synthetic",
        "jax/train-fp32-xla-1n1d-b8-synthetic",
        "jax/train-fp32-xla-1n1d-b4-synthetic",
    ]


def test_a_name_leaves_out_what_is_absent_or_standard():
    assert names(config(["pytorch"])) == ["pytorch/train-fp32-1n1d-b8-synthetic"]
    round = config(["pytorch"], compilers=["on"], topologies=["2n8d"], image_size=64)
    assert names(round) == ["pytorch/train-fp32-inductor-2n8d-b8-synthetic-px64"]


def test_a_case_carries_the_name_of_the_compiler_never_the_word_of_the_config():
    round = config(["pytorch", "paddlepaddle", "jax"], compilers=["default", "on"])
    found = {(case.framework, case.compiler) for case in expand(round)}
    assert found == {
        ("pytorch", "none"),
        ("pytorch", "inductor"),
        ("paddlepaddle", "none"),
        ("paddlepaddle", "cinn"),
        ("jax", "xla"),
    }


def refusing(**reasons):
    """What a framework cannot do, by compiler."""
    return lambda case: reasons.get(case["compiler"], "")


def compiled(monkeypatch, words, default="graph", **reasons):
    """(compiler, unsupported) of the cases of a framework that has graph and xla."""
    own = known_framework("OneFlow", ["graph", "xla"], default, refusing(**reasons))
    for each in ("find", "of"):
        monkeypatch.setattr(frameworks, each, {"oneflow": own}.get)
    cases = expand(config(["oneflow"], compilers=words))
    return [(case.compiler, case.unsupported) for case in cases]


def test_the_default_is_another_compiler_where_the_usual_one_cannot_do_a_case(monkeypatch):
    assert compiled(monkeypatch, ["default"]) == [("graph", "")]
    assert compiled(monkeypatch, ["default"], graph="no") == [("none", "")]
    assert compiled(monkeypatch, ["default"], graph="no", none="slow") == [("xla", "")]
    assert compiled(monkeypatch, ["default"], default="none", none="slow") == [("graph", "")]
    assert compiled(monkeypatch, ["default", "off"], graph="no") == [("none", "")], "once"


def test_where_no_compiler_can_each_reason_is_said_once(monkeypatch):
    ((compiler, reason),) = compiled(monkeypatch, ["default"], graph="no", none="old", xla="old")
    assert compiler == "graph", "what most users run"
    assert reason == "no; and with the compiler 'none': old"
    ((_, reason),) = compiled(monkeypatch, ["default"], graph="old", none="old", xla="old")
    assert reason == "old"


def test_a_compiler_that_is_asked_for_is_not_replaced(monkeypatch):
    for word in ("on", "graph"):
        assert compiled(monkeypatch, [word], graph="no") == [("graph", "no")]
    assert compiled(monkeypatch, ["off"], none="no") == [("none", "no")]


def test_two_words_for_the_same_compiler_make_one_case():
    round = config(["jax"], compilers=["default", "on", "xla"])
    assert names(round) == ["jax/train-fp32-xla-1n1d-b8-synthetic"]


def test_a_choice_makes_cases_of_its_own_scenarios_alone():
    cases = expand(
        config(["pytorch"], scenarios=["train", "infer"], fold=[False, True], image_size=64)
    )
    assert [(each.scenario, each.dimensions["fold"]) for each in cases] == [
        ("train", 0),
        ("infer", 0),
        ("infer", 1),
    ]
    assert [each.certificate("cpu").rpartition("/")[2] for each in cases] == [
        "cpu-fp32-1.json",
        "cpu-fp32-infer-1.json",
        "cpu-fp32-fold1-infer-1.json",
    ]
    assert cases[-1].name == "infer-fp32-1n1d-b8-synthetic-px64-fold1"


def test_a_series_is_a_framework_with_its_compiler():
    round = config(["pytorch"], compilers=["off", "on"])
    assert [case.series for case in expand(round)] == ["pytorch", "pytorch-inductor"]


def test_what_a_framework_cannot_do_stays_in_the_plan_with_the_reason():
    round = config(["pytorch", "oneflow"], precisions=["fp32", "amp"])
    reasons = {(case.framework, case.precision): case.unsupported for case in expand(round)}
    assert reasons == {
        ("pytorch", "fp32"): "",
        ("oneflow", "fp32"): "",
        ("pytorch", "amp"): "",
        ("oneflow", "amp"): "no effect on CPU",
    }


@pytest.mark.parametrize("device, why", [("cpu", "TF32 is a format of GPUs"), ("cuda", "")])
def test_tf32_is_a_precision_of_gpus(device, why):
    round = config(["pytorch"], precisions=["tf32"], batch_sizes={"tf32": [8]}, device=device)
    (case,) = expand(round)
    assert case.unsupported.startswith(why) and bool(case.unsupported) == bool(why)
    assert case.folder == "resnet50/pytorch/train-tf32-1n1d-b8-synthetic"


@pytest.mark.parametrize(
    ("device", "interpreters", "planned"),
    [
        ("cuda", {}, {"pytorch", "paddlepaddle"}),
        ("cpu", {}, set()),
        ("cpu", {"paddlepaddle": sys.executable}, {"paddlepaddle"}),
        ("cpu", {"jax": sys.executable}, set()),
    ],
)
def test_dali_reads_where_an_environment_has_it(device, interpreters, planned):
    """That is planned; what else has its own reader in its data."""
    changes = {"environments": {"interpreters": interpreters}, "device": device}
    asked = ["pytorch", "paddlepaddle", "oneflow", "jax"]
    for data in ("sample_dali", "imagenet_dali"):
        found = expand(config(asked, data=[data], **changes))
        assert {case.framework for case in found if not case.unsupported} == planned
        for case in found:
            if case.framework not in libraries.DALI:
                reason = "NVIDIA DALI reads for PyTorch and PaddlePaddle alone here"
                assert case.unsupported.startswith(reason)
            elif case.unsupported:
                assert case.unsupported.startswith("only the environments for CUDA have NVIDIA")
    # without it the same case is another one, with its own reader
    (own,) = expand(config(["paddlepaddle"], data=["sample_native"], **changes))
    assert not own.unsupported and own.folder.endswith("-sample_native")


def test_a_compiler_by_name_is_unsupported_where_it_is_another_framework_s():
    round = config(["pytorch", "paddlepaddle"], compilers=["static"])
    reasons = {case.framework: case.unsupported for case in expand(round)}
    assert reasons == {
        "pytorch": "no such compiler; PyTorch has: none, inductor",
        "paddlepaddle": "",
    }


def test_a_framework_without_an_implementation_stays_in_the_plan():
    (case,) = expand(config(["hugectr"], compilers=["default", "on"]))
    assert case.unsupported == "no implementation yet"


def test_the_same_config_gives_the_same_cases_in_the_same_order():
    round = config(["jax", "pytorch"], topologies=["1n2d", "1n1d"])
    assert names(round) == names(round)
    assert [case.topology for case in expand(round)] == ["1n2d", "1n2d", "1n1d", "1n1d"]
    assert [case.framework for case in expand(round)] == ["jax", "pytorch"] * 2


def test_a_document_says_all_that_a_repetition_needs_to_know():
    round = config(
        ["pytorch"],
        data=["sample"],
        image_size=64,
        topologies=["1n2d"],
        steps={"warmup": 2, "measured": 10},
        timeout_seconds=300,
    )
    (case,) = expand(round)
    document = plan.document(case, round, 3)
    assert document == {
        "schema": "dlperf.case/2",
        "identity": {
            "round": "mine",
            "workload": "resnet50",
            "framework": "pytorch",
            "scenario": "train",
            "precision": "fp32",
            "compiler": "none",
            "nodes": 1,
            "devices_per_node": 2,
            "layout": {
                "tensor_parallel": 1,
                "pipeline_parallel": 1,
                "zero_stage": 0,
                "accumulation": 1,
                "activation_checkpointing": False,
            },
            "batch_size": 8,
            "searched": "",
            "epochs": 0,
            "arrival_rate": 0,
            "data": "sample",
            "repetition": 3,
            "image_size": 64,
            "fold": 0,
            "mixup": 0,
        },
        "settings": {
            "device": "cpu",
            "warmup_steps": 2,
            "measured_steps": 10,
            "cores_per_device": 1,
            "timeout_seconds": 300,
            "seed": 1,
            "data_dir": "results/data/sample",
        },
    }
    assert list(document["identity"]) == list(case.identity("mine", 3))
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("scenario", ["train", "quality"])  # in the latter each has its own seed
def test_a_document_can_be_made_of_that_of_another_repetition(scenario):
    quality = {"epochs": [1], "data": ["digits"], "image_size": 32}
    own = {"scenarios": [scenario], "quality": quality} if scenario == "quality" else {}
    round = config(["pytorch"], repetitions=3, **own)
    (case,) = expand(round)
    first = plan.document(case, round, 1)
    for repetition in (1, 2, 3):
        made = plan.of_repetition(first, case, round, repetition)
        assert made == plan.document(case, round, repetition)
        assert made["settings"]["seed"] == 1 + (repetition - 1 if own else 0)
    assert first["identity"]["repetition"] == 1 and first["settings"]["seed"] == 1


def test_synthetic_data_have_no_folder():
    round = config(["pytorch"])
    (case,) = expand(round)
    assert plan.document(case, round, 1)["settings"]["data_dir"] == ""


LAYOUTS = st.builds(
    Layout,
    tensor_parallel=st.integers(1, 64),
    pipeline_parallel=st.integers(1, 64),
    zero_stage=st.integers(0, 3),
    accumulation=st.integers(1, 4096),
    activation_checkpointing=st.booleans(),
)


@given(
    st.builds(
        Case,
        workload=st.just("resnet50"),
        framework=st.sampled_from(["pytorch", "tensorflow1", "jax"]),
        scenario=st.sampled_from(["train", "infer", "quality"]),
        precision=st.sampled_from(["fp32", "amp"]),
        compiler=st.sampled_from(["none", "inductor", "xla", "static", "graph"]),
        nodes=st.integers(1, 9999),
        devices_per_node=st.integers(1, 9999),
        layout=LAYOUTS,
        batch_size=st.integers(1, 10**6),
        data=st.sampled_from(["synthetic", "sample"]),
        dimensions=st.integers(32, 1024).map(
            lambda size: Dimensions(workloads.dimensions("resnet50"), {"image_size": size})
        ),
    )
)
def test_a_folder_spells_the_case_and_nothing_but_the_case(case):
    assert parse_case(case.folder) == case
    assert case_of(case.identity("mine", 1)) == case
    assert case_of_row(case.columns("mine", 1)) == case


def test_a_name_says_how_a_model_is_split():
    case = parse_case("bert/jax/train-amp-xla-2n8d-tp8-pp2-zero1-ckpt1-b4-acc8-synthetic-seq512")
    assert case.layout == Layout(8, 2, 1, 8, True)
    assert case.global_batch_size == 4 * 1 * 8
    assert case.certificate("cuda").endswith("/cuda-amp-xla-tp2pp2zero1ckpt1acc2-2n.json")
    assert base_case(case).name == case.name.replace("2n8d", "1n1d")


@given(LAYOUTS, st.integers(1, 64), st.sampled_from([1, 2, 4]))
def test_two_of_each_kind_prove_a_layout(layout, replicas, nodes):
    devices = replicas * nodes * layout.devices_per_replica
    name = layout.proved(devices, nodes)
    proved = Proved.parse(name)
    assert proved.layout.proved(proved.devices, proved.nodes) == name
    for field in NAMES:
        asked = getattr(layout, field)
        whole = field in ("zero_stage", "activation_checkpointing")
        assert getattr(proved.layout, field) == (asked if whole else min(2, asked))


@pytest.mark.parametrize(
    "name", "1 dp2 acc2 tp2 pp2acc2 dp2tp2 tp2pp2acc2 zero1 zero2 zero3 ckpt1 dp2-2n".split()
)
def test_the_layouts_of_certificates_are_read_from_their_names(name):
    proved = Proved.parse(name)
    assert proved.layout.proved(proved.devices, proved.nodes) == proved.name == name


@pytest.mark.parametrize("name", ["", "dp1", "acc2dp2", "zero4", "ckpt0", "ckpt2", "1-2n", "tp4"])
def test_other_names_are_no_layouts(name):
    with pytest.raises(ValueError, match="is not a layout, such as 1, dp2"):
        Proved.parse(name)


@pytest.mark.parametrize(
    "folder",
    [
        "",
        "resnet50/pytorch",
        "resnet51/pytorch/train-fp32-1n1d-b8-synthetic",
        "resnet50/pytorch/train-fp32-1n1d-b8-synthetic/rep1.json",
        "resnet50/pytorch/train-fp32-none-1n1d-b8-synthetic",
        "resnet50/pytorch/train-fp32-1n1d-b08-synthetic",
        "resnet50/pytorch/train-fp32-1n1d-b8-synthetic-px224",
        "resnet50/pytorch/train-fp32-1n1d-b8-synthetic-px64-px64",
        "resnet50/pytorch/train-fp32-1n1d-b8-synthetic-zz64",
        "bert/pytorch/train-fp32-1n1d-b8-acc1-synthetic",
        "bert/pytorch/train-fp32-1n1d-acc2-b8-synthetic",
        "bert/pytorch/train-fp32-1n1d-ckpt0-b8-synthetic",
        "bert/pytorch/train-fp32-1n1d-ckpt2-b8-synthetic",
        "bert/pytorch/train-fp32-1n2d-ckpt1-zero1-b8-synthetic",
    ],
)
def test_a_folder_that_no_case_has_is_refused(folder):
    with pytest.raises(ValueError, match="not the folder of a case"):
        parse_case(folder)


class TestOrder:
    frameworks = ("pytorch", "paddlepaddle", "oneflow", "jax")

    def turns(self, **changes):
        """(framework, topology, repetition) in the order of their turns."""
        ranks = order(config(self.frameworks, topologies=["1n1d", "1n2d"], **changes))
        assert sorted(ranks.values()) == list(range(len(ranks)))
        return [
            (case.framework, case.topology, repetition)
            for case, repetition in sorted(ranks, key=ranks.get)
        ]

    def test_every_repetition_has_one_turn(self):
        assert max(Counter(self.turns(repetitions=3)).values()) == 1
        assert len(self.turns(repetitions=3)) == 4 * 2 * 3

    def test_all_of_a_repetition_comes_before_the_next_one(self):
        repetitions = [repetition for _, _, repetition in self.turns(repetitions=3)]
        assert repetitions == sorted(repetitions)

    def test_cases_that_are_compared_stand_together_whatever_the_framework(self):
        turns = self.turns(repetitions=3)
        for first in range(0, len(turns), 4):
            group = turns[first : first + 4]
            assert {framework for framework, _, _ in group} == set(self.frameworks)
            assert len({topology for _, topology, _ in group}) == 1

    def test_no_framework_always_goes_first(self):
        turns = self.turns(repetitions=20)
        first = Counter(framework for framework, _, _ in turns[::4])
        assert set(first) == set(self.frameworks)

    def test_the_seed_decides(self):
        assert self.turns(seed=1) == self.turns(seed=1)
        assert self.turns(seed=1) != self.turns(seed=2)


def test_two_thousand_repetitions_have_two_thousand_records():
    round = config(
        ["pytorch", "jax", "oneflow", "paddlepaddle"],
        precisions=["fp32", "amp"],
        batch_sizes={"fp32": list(range(1, 21)), "amp": list(range(1, 26))},
        topologies=["1n1d", "1n2d"],
        repetitions=6,
    )
    ranks = order(round)
    records = {f"{case.folder}/rep{repetition}.json" for case, repetition in ranks}
    assert len(ranks) == len(records) == 2160


def test_nvidias_resnet50_round_is_the_published_matrix():
    config = load(ROOT / "config/rounds/nvidia-resnet50.yaml")
    cases = [case for case in expand(config) if not case.unsupported]
    tested = [case for case in cases if case.scenario == "quality"]
    found = {(case.devices, case.batch_size, case.epochs, case.data) for case in tested}
    assert found == {(devices, 512, 90, "imagenet") for devices in (1, 8)}
    assert {case.devices for case in cases if case.scenario == "train"} == {1, 4, 8}
    inferred = {case.batch_size for case in cases if case.scenario == "infer"}
    assert inferred == {1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 512}
    of_90 = next(case for case in tested if case.devices == 8)
    settings = document(of_90, config, 1)["settings"]
    assert settings["measured_steps"] == 90 * (1_281_167 // (8 * 512))
    assert (settings["evaluations"], settings["target"]) == (25, 0.759)


def test_nvidias_resnet50_is_trained_for_50_90_and_with_mixed_images_250_epochs_on_a_dgx_1():
    base = ROOT / "config/rounds/nvidia-resnet50"
    for name, mixup, asked in (("stability", 0, (50, 90)), ("mixup", 1, (250,))):
        cases = expand(load([f"{base}.yaml", base / f"dgx-1-{name}.yaml"]))
        found = {(each.epochs, each.devices, each.dimensions["mixup"]) for each in cases}
        assert found == {(epochs, 8, mixup) for epochs in asked}
        assert {each.variant for each in cases} == {"mixup1-quality" if mixup else "quality"}
