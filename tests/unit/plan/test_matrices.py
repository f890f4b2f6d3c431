"""Lists of sizes, batches of all devices, and more cases than the combinations of the lists."""

import csv
import math
from dataclasses import replace

import pytest
import yaml
from conftest import ROOT

from dlperf import workloads
from dlperf.contract.layout import Layout
from dlperf.plan import ConfigError, dump, expand, load


def on_two(**section):
    return {
        "round": "mine",
        "device": "cpu",
        "frameworks": ["pytorch"],
        "workloads": {
            "resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, **section}
        },
        "topologies": ["1n1d", "1n2d"],
    }


def only_problem(config):
    with pytest.raises(ConfigError) as caught:
        load(config, "mine.yaml")
    (line,) = str(caught.value).splitlines()
    return line


def cases_of(config):
    return [
        (case.topology, case.batch_size, case.dimensions["image_size"])
        for case in expand(load(config))
    ]


def test_a_size_is_a_number_or_a_list_of_numbers():
    one = cases_of(on_two(batch_sizes={"fp32": [8]}, image_size=64, compilers=["off"]))
    more = cases_of(on_two(batch_sizes={"fp32": [8]}, image_size=[64, 96], compilers=["off"]))
    assert set(more) == {*one, *((topology, 8, 96) for topology, _, _ in one)}
    line = only_problem(on_two(image_size=[64, 8]))
    assert line.startswith("mine.yaml: workloads.resnet50.image_size[1]: 8 must be greater")
    assert "image_size" in only_problem(on_two(image_size=[]))


def test_a_batch_of_all_devices_is_shared_by_them():
    sizes = {"batch_sizes": {"fp32": [4]}, "global_batch_sizes": {"fp32": [16]}}
    found = cases_of(on_two(**sizes, image_size=64, compilers=["off"]))
    each = [("1n1d", 4, 64), ("1n2d", 4, 64)]
    assert sorted(found) == sorted([*each, ("1n1d", 16, 64), ("1n2d", 8, 64)])


def test_a_batch_that_devices_cannot_share_is_named():
    line = only_problem(on_two(global_batch_sizes={"fp32": [15]}))
    assert line == (
        "mine.yaml: workloads.resnet50.global_batch_sizes.fp32: 15 cannot be shared equally by 2, "
        "as 1n2d needs"
    )


def test_more_cases_differ_in_what_their_entry_says():
    also = [
        {"image_size": 96, "topologies": ["1n1d"]},
        {"global_batch_sizes": {"fp32": [16]}, "topologies": ["1n2d"]},
    ]
    asked = on_two(batch_sizes={"fp32": [4]}, image_size=64, compilers=["off"], also=also)
    assert sorted(cases_of(asked)) == sorted(
        [("1n1d", 4, 64), ("1n2d", 4, 64), ("1n1d", 4, 96), ("1n2d", 8, 64)]
    )
    line = only_problem(on_two(also=[{"image_sizes": 96}]))
    assert line.startswith("mine.yaml: workloads.resnet50.also[0].image_sizes: unknown key")
    assert "did you mean 'image_size'" in line


def test_an_entry_may_have_data_of_its_own():
    also = [{"data": ["sample"], "topologies": ["1n1d"]}]
    asked = on_two(data=["synthetic"], compilers=["off"], also=also)
    found = [(case.topology, case.data) for case in expand(load(asked))]
    assert found == [("1n1d", "synthetic"), ("1n2d", "synthetic"), ("1n1d", "sample")]
    line = only_problem(on_two(also=[{"data": ["sampel"]}]))
    assert line.startswith("mine.yaml: workloads.resnet50.also[0].data[0]: 'sampel' is not a kind")
    assert "did you mean 'sample'" in line


def test_an_entry_may_have_a_precision_of_its_own():
    also = [{"precisions": ["amp"], "batch_sizes": {"amp": [16]}, "topologies": ["1n1d"]}]
    asked = on_two(batch_sizes={"fp32": [4]}, compilers=["off"], also=also)
    found = [(case.precision, case.topology, case.batch_size) for case in expand(load(asked))]
    assert found == [("fp32", "1n1d", 4), ("fp32", "1n2d", 4), ("amp", "1n1d", 16)]
    also = [{"precisions": ["fp32", "amp"], "topologies": ["1n1d"], "image_size": 96}]
    line = only_problem(on_two(batch_sizes={"fp32": [4]}, also=also))
    assert line == (
        "mine.yaml: workloads.resnet50.also[0].batch_sizes.amp: is missing, but `precisions` has "
        "'amp'"
    )
    also = [{"precisions": ["amp"], "global_batch_sizes": {"fp32": [4]}}]
    assert "also[0].global_batch_sizes.amp: is missing" in only_problem(on_two(also=also))
    also = [{"precisions": ["amp"], "batch_sizes": None}]  # as if it were left out
    assert "also[0].batch_sizes.amp: is missing" in only_problem(on_two(also=also))


def test_global_batches_alone_are_enough_to_train():
    asked = on_two(batch_sizes=None, global_batch_sizes={"fp32": [8]}, compilers=["off"])
    del asked["workloads"]["resnet50"]["batch_sizes"]
    found = expand(load(asked))
    assert [(case.topology, case.batch_size) for case in found] == [("1n1d", 8), ("1n2d", 4)]
    assert all(case.together for case in found)
    asked["workloads"]["resnet50"]["precisions"] = ["fp32", "amp"]
    assert only_problem(asked).endswith("batch_sizes.amp: is missing, but `precisions` has 'amp'")
    asked["workloads"]["resnet50"] |= {"precisions": ["fp32"], "scenarios": ["train", "infer"]}
    assert only_problem(asked).endswith("batch_sizes.fp32: is missing, but `precisions` has 'fp32'")


def published_by_dlperf(model):
    """(precision, XLA or other compiler, clip, topology, batch) of its report's throughputs."""
    with open(ROOT / "config/published/dlperf-v1-common.csv") as stream:
        rows = [row for row in csv.DictReader(stream) if row["model"] == model]
    return {
        (
            row["precision"],
            row["xla"] == "yes",
            row["clip"] != "no",
            f"{row['nodes']}n{row['gpus_per_node']}d",
            int(row["bsz_per_device"]),
        )
        for row in rows
    }


def cases_of_framework(framework, *files):
    config = load([ROOT / f"config/rounds/{name}.yaml" for name in files])
    assert (config.repetitions, config.steps.warmup, config.steps.measured) == (7, 20, 100)
    assert len(config.frameworks) == 8
    return {
        (
            case.precision,
            case.compiler == "xla",
            bool(case.dimensions.get("clip", True)),
            case.topology,
            case.batch_size,
        )
        for case in expand(config)
        if case.framework == framework and not case.unsupported
    }


def test_dlperf_v1_is_the_published_matrix():
    published = published_by_dlperf("ResNet50-v1.5")
    usual = {each for each in published if each[-1] not in (196, 224)}
    assert len(usual) == 8 and usual <= cases_of_framework("pytorch", "dlperf-v1")
    # what fitted where 256 did not
    of_tensorflow1 = {each for each in published if each[-1] == 224}
    of_paddlepaddle = {each for each in published if each[-1] == 196}
    assert published == usual | of_tensorflow1 | of_paddlepaddle
    assert of_tensorflow1 <= cases_of_framework("tensorflow1", "dlperf-v1")
    assert of_paddlepaddle <= cases_of_framework("paddlepaddle", "dlperf-v1")


def test_dlperf_v1_bert_is_the_published_matrix():
    published = published_by_dlperf("BERT-base")
    found = cases_of_framework("tensorflow1", "dlperf-v1-bert")
    usual = {each for each in published if each[-1] == {"fp32": 32, "amp": 64}[each[0]]}
    assert len(usual) == 20 and usual <= found
    assert {(*each[:4], 0) for each in published} <= found  # the largest, which is searched
    assert published <= cases_of_framework("tensorflow1", "dlperf-v1-bert", "dlperf-v1-bert/v100")


def test_dlperf_v1_wide_deep_is_the_published_matrix():
    config = load(ROOT / "config/rounds/dlperf-v1-wide-deep.yaml")
    cases = expand(config)
    own = [case for case in cases if case.framework == "pytorch"]
    assert not any(case.unsupported for case in own)

    def of(**sizes):
        return [
            case
            for case in own
            if all(case.dimensions[name] == value for name, value in sizes.items())
        ]

    # the last batches that fitted, of all devices together
    batches = of(layers=2, vocabulary=2_322_444)
    for topology, last in {"1n1d": 524_288, "1n8d": 2_097_152, "4n8d": 4_194_304}.items():
        there = [case.global_batch_size for case in batches if case.topology == topology]
        assert sorted(there) == [512 * 2**n for n in range(len(there))]
        assert there[-1] >= last
    rows = [case for case in of(layers=7) if case.dimensions["vocabulary"] != 2_322_444]
    assert {case.global_batch_size for case in rows} == {16_384}
    last = {"1n1d": 409_600_000, "1n8d": 409_600_000, "4n8d": 819_200_000}
    for topology, most in last.items():
        there = sorted(case.dimensions["vocabulary"] for case in rows if case.topology == topology)
        assert there == [3_200_000 * 2**n for n in range(len(there))]
        assert there[-1] == most
    scaling = of(layers=7, width=32, vocabulary=2_322_444)
    fixed = {case.devices for case in scaling if case.global_batch_size == 16_384}
    assert fixed == {case.devices for case in scaling if case.batch_size == 16_384}
    assert fixed == {1, 2, 4, 8, 16, 32}
    assert (config.steps.warmup, config.steps.measured) == (100, 1000)


def test_oneflow_stands_beside_hugectr_with_tables_that_devices_share():
    """As published; whole tables of 819.2 million rows fit no device."""
    cases = expand(load(ROOT / "config/rounds/dlperf-v1-wide-deep.yaml"))
    runs = {case.framework: set() for case in cases}
    for case in cases:
        if not case.unsupported:
            runs[case.framework].add(replace(case, framework="", compiler=""))
    assert runs["hugectr"] <= runs["oneflow"]
    assert {case.devices for case in runs["hugectr"]} == {1, 2, 4, 8, 16, 32}
    for case in runs["hugectr"]:
        assert (case.dimensions["tables"] == "sharded") == (case.devices > 1)
    most = {case.dimensions["tables"] for case in cases if case.dimensions["vocabulary"] > 5e8}
    assert most == {"sharded"}


def test_dlperf_v1_gpt_is_the_published_matrix():
    """All of its rows, and ZeRO beside them; none is unsupported in eager PyTorch."""
    with open(ROOT / "config/published/dlperf-v1-gpt.csv") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "throughput"]
    sizes = ("hidden", "layers", "heads", "seq_len")
    published = {
        (
            f"{row['nodes']}n{row['gpus_per_node']}d",
            *(int(row[name]) for name in ("dp", "tp", "pp", "accumulation")),
            *(int(row[name]) for name in ("micro_batch", "global_batch", *sizes)),
        )
        for row in rows
    }
    cases = [
        case
        for case in expand(load(ROOT / "config/rounds/dlperf-v1-gpt.yaml"))
        if (case.framework, case.compiler) == ("pytorch", "none")
    ]
    assert not any(case.unsupported for case in cases)
    computed_again = {
        (
            case.topology,
            case.layout.data_parallel(case.devices),
            *(case.layout.tensor_parallel, case.layout.pipeline_parallel, case.layout.accumulation),
            *(case.batch_size, case.global_batch_size),
            *(case.dimensions[name] for name in ("width", "layers", "heads", "sequence_length")),
        )
        for case in cases
        if case.layout.activation_checkpointing
    }
    assert len({row["case"] for row in rows}) == 18 and computed_again == published
    zero = {
        (case.layout.zero_stage, case.devices)
        for case in cases
        if not case.layout.activation_checkpointing
    }
    assert zero == {(stage, devices) for stage in range(4) for devices in (8, 16, 32)}


def test_one_gpu_is_all_that_a_card_holds():
    config = load(ROOT / "config/rounds/one-gpu.yaml")
    cases, sections = expand(config), config.workloads.asked()
    assert config.topologies == ["1n1d"]
    assert set(sections) == set(workloads.NAMES)
    assert all(section.compilers == ["off", "on"] for section in sections.values())
    batches = {"resnet50": [256, "max"], "bert": [64, 256, "max"]}
    for workload, sizes in batches.items():
        for precision in ("fp32", "tf32", "amp"):
            assert set(sizes) <= set(sections[workload].batch_sizes[precision])
    assert sections["bert"].padded_vocabulary == [True]
    found = {
        (case.workload, case.scenario)
        for case in cases
        if case.framework == "pytorch" and not case.unsupported
    }
    there = {
        (workload, scenario)
        for workload in workloads.NAMES
        for scenario in ("train", "infer", "quality")
        if workloads.implements(workload, "pytorch", scenario)
    }
    # of SQuAD's sample nothing is learned
    assert found == there - {("electra_squad", "quality")} | {("resnet50", "server")}
    lengths = {c.dimensions["sequence_length"] for c in cases if c.workload == "electra"}
    assert lengths == {128, 512}


@pytest.mark.parametrize(
    "files, card",
    [
        (["nvidia-electra"], "A100-40GB"),
        (["nvidia-electra", "nvidia-electra/v100-32gb"], "V100-32GB"),
    ],
)
def test_nvidias_electra_round_is_the_published_matrix(files, card):
    config = load([ROOT / f"config/rounds/{name}.yaml" for name in files])
    found = {
        (
            case.precision,
            str(case.dimensions["sequence_length"]),
            case.topology,
            str(case.batch_size),
            str(case.layout.accumulation),
        )
        for case in expand(config)
        if case.framework == "pytorch" and not case.unsupported
    }
    with open(ROOT / "config/published/nvidia-electra.csv") as stream:
        rows = [row for row in csv.DictReader(stream) if row["gpu"] == card]
    published = {
        (row["precision"], length, f"{row['nodes']}n{row['gpus_per_node']}d", batch, accumulation)
        for row in rows
        if row["mode"] == "pretrain" and row["bsz_per_device"]
        # those that trained to the end have both phases in a row: '128|512'
        for length, batch, accumulation in zip(
            *(row[key].split("|") for key in ("seq_len", "bsz_per_device", "accumulation_steps")),
            strict=True,
        )
    }
    assert len(published) == {"A100-40GB": 12, "V100-32GB": 16}[card] and published <= found
    # of each, one device with the same micro-steps
    assert {(p, s, "1n1d", b, a) for p, s, _, b, a in found} <= found
    updates = {int(s): set() for _, s, *_ in published}
    for _, length, topology, batch, accumulation in published:
        devices = math.prod(map(int, topology[:-1].split("n")))
        updates[int(length)].add(devices * int(batch) * int(accumulation))
    assert updates == {128: {67_584}, 512: {27_648}}


def test_more_cases_may_have_other_micro_steps():
    asked = on_two(also=[{"layouts": [{"accumulation": 4}], "topologies": ["1n1d"]}])
    found = {(case.topology, case.layout.accumulation) for case in expand(load(asked))}
    assert found == {("1n1d", 1), ("1n2d", 1), ("1n1d", 4)}


def laid_out(*layouts, **changes):
    """BERT in these layouts on 1, 2, 4 and 8 devices."""
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "compilers": ["off"]}
    section |= {"layouts": list(layouts)} if layouts else {}
    topologies = ["1n1d", "1n2d", "1n4d", "2n4d"]
    return {**on_two(), "topologies": topologies, "workloads": {"bert": section | changes}}


def test_without_layouts_there_is_one():
    assert [case.layout for case in expand(load(laid_out()))] == [Layout()] * 4
    assert load(laid_out()) == load(laid_out({}))


def test_layouts_are_no_product_of_lists():
    asked = laid_out({"tensor_parallel": 2}, {"pipeline_parallel": 2, "accumulation": 4})
    found = {case.layout for case in expand(load(asked))}
    assert found == {Layout(tensor_parallel=2), Layout(pipeline_parallel=2, accumulation=4)}


@pytest.mark.parametrize(
    "key", ["tensor_parallel", "pipeline_parallel", "zero_stage", "accumulation"]
)
def test_a_list_of_one_kind_of_layout_is_no_key(key):
    line = only_problem(laid_out(**{key: [2]}))
    assert line.startswith(f"mine.yaml: workloads.bert.{key}: unknown key (its value is [2])")
    assert f"did you mean 'workloads.bert.layouts.{key}'?" in line
    line = only_problem(laid_out(also=[{key: [2]}]))
    assert f"did you mean 'workloads.bert.also.layouts.{key}'?" in line


@pytest.mark.parametrize("again", [{"accumulation": 2}, {"accumulation": 2, "zero_stage": 0}])
def test_a_layout_stands_once_in_a_list(again):
    line = only_problem(laid_out({}, {"accumulation": 2}, again))
    assert line.startswith("mine.yaml: workloads.bert.layouts[2]: {")
    assert "leave one out" in line
    also = [{"layouts": [{}, {"accumulation": 1}], "batch_sizes": {"fp32": [4]}}]
    assert only_problem(laid_out(also=also)) == (
        "mine.yaml: workloads.bert.also[0].layouts[1]: {} is the same layout as "
        "workloads.bert.also[0].layouts[0]; leave one out"
    )


@pytest.mark.parametrize(
    "layout, key, value, allowed, nearest",
    [
        ({"tensor_parallel": 3}, "tensor_parallel", 3, "1, 2, 4, 8", 2),
        ({"tensor_parallel": 2, "pipeline_parallel": 5}, "pipeline_parallel", 5, "1, 2, 4", 4),
        ({"tensor_parallel": 3, "pipeline_parallel": 7}, "pipeline_parallel", 7, "1, 2, 4, 8", 8),
        ({"data_parallel": 16}, "data_parallel", 16, "1, 2, 4, 8", 8),
        ({"data_parallel": 4, "tensor_parallel": 4}, "data_parallel", 4, "1, 2", 2),
    ],
)
def test_a_layout_that_fits_no_topology_is_refused(layout, key, value, allowed, nearest):
    assert only_problem(laid_out({}, layout)) == (
        f"mine.yaml: workloads.bert.layouts[1].{key}: {value} fits no topology: the devices of "
        f"1n1d (1), 1n2d (2), 1n4d (4), 2n4d (8) cannot be spread so; did you mean '{nearest}'? "
        f"[allowed: {allowed}]"
    )


def test_an_entry_of_also_has_to_fit_its_own_topologies():
    also = [{"layouts": [{"tensor_parallel": 4}], "topologies": ["1n2d"]}]
    line = only_problem(laid_out(also=also))
    assert "also[0].layouts[0].tensor_parallel: 4 fits no topology: the devices of 1n2d (2)" in line


def test_what_a_layout_does_not_divide_is_unsupported_there():
    cases = expand(load(laid_out({"tensor_parallel": 2, "pipeline_parallel": 2})))
    reasons = {case.topology: case.unsupported for case in cases}
    assert reasons == {
        "1n1d": "1 device cannot be split into replicas of 4 (tensor_parallel 2 x "
        "pipeline_parallel 2)",
        "1n2d": "2 devices cannot be split into replicas of 4 (tensor_parallel 2 x "
        "pipeline_parallel 2)",
        "1n4d": "no implementation of BERT-Base has pipeline_parallel",
        "2n4d": "no implementation of BERT-Base has pipeline_parallel",
    }


def test_data_parallel_selects_topologies():
    asked = [{"data_parallel": 2, "accumulation": 2}, {"data_parallel": 2, "tensor_parallel": 4}]
    found = [(case.topology, case.layout) for case in expand(load(laid_out(*asked)))]
    assert found == [
        ("1n2d", Layout(accumulation=2)),
        ("2n4d", Layout(tensor_parallel=4)),
    ]


def test_what_no_implementation_has_is_unsupported():
    (reason,) = {
        case.unsupported for case in expand(load(laid_out({"activation_checkpointing": True})))
    }
    assert reason == "no implementation of BERT-Base has activation_checkpointing"


def test_a_written_config_asks_for_the_same_layouts():
    asked = load(laid_out({}, {"data_parallel": 2, "accumulation": 2}))
    assert load(yaml.safe_load(dump(asked))) == asked
