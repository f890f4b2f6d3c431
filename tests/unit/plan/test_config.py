"""A round's config: what is accepted, and how mistakes are told."""

import json

import jsonschema
import pytest
import yaml
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_framework import known_framework
from round_files import ROUNDS, name_of

from dlperf import frameworks
from dlperf.contract.problems import keys
from dlperf.plan import Config, ConfigError, check_beside, dump, load, problems_here
from dlperf.plan.durations import default_seconds
from dlperf.plan.read import merged
from dlperf.plan.schema import json_schema, with_table
from dlperf.workloads.cases import parse_case

CONFIG = ROOT / "config"


@pytest.fixture(autouse=True)
def two_frameworks(monkeypatch):
    """PyTorch and JAX as a config sees them; other frameworks have no compiler."""
    known = {
        "pytorch": known_framework("PyTorch", ["inductor"]),
        "jax": known_framework("JAX", ["xla"]),
    }
    for each in ("find", "of"):
        monkeypatch.setattr(frameworks, each, known.get)


def small(**changes):
    """The smallest config that says everything that must be said."""
    content = {
        "round": "mine",
        "device": "cpu",
        "frameworks": ["pytorch", "jax"],
        "workloads": {"resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}}},
        "topologies": ["1n1d"],
    }
    return {**content, **changes}


def resnet50(**changes):
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, **changes}
    return {"resnet50": section}


def problems(config):
    with pytest.raises(ConfigError) as caught:
        load(config, "mine.yaml")
    return str(caught.value).splitlines()


def only_problem(config):
    (line,) = problems(config)
    return line


@pytest.mark.parametrize("paths", ROUNDS, ids=name_of)
def test_the_rounds_that_come_with_the_project_are_valid(paths):
    config = load(paths)
    content = merged({}, *(yaml.safe_load(path.read_text()) for path in paths))
    jsonschema.validate(content, json.loads(json_schema()))
    assert config.round == ("laptop" if name_of(paths) == "config" else name_of(paths))


def test_a_gpu_is_expected_to_be_faster_in_tf32_and_fastest_in_mixed_precision():
    config = load(CONFIG / "rounds" / "one-gpu.yaml")
    seconds = {
        precision: default_seconds(
            parse_case(f"resnet50/pytorch/train-{precision}-1n1d-b512-synthetic"), config
        )
        for precision in config.workloads.resnet50.precisions
    }
    assert seconds["fp32"] > seconds["tf32"] > seconds["amp"]
    # a V100 trains 367 images/s in fp32, as DLPerf published it; newer cards up to some times more
    steps = 20 + 100 + 100  # of warm-up, of the trial and of a window of more than ten seconds
    assert steps * 512 / 1500 < seconds["fp32"] < 12 + steps * 512 / 367


def test_what_need_not_be_said_has_the_published_protocol_as_default():
    config = load(small())
    assert (config.repetitions, config.steps.warmup, config.steps.measured) == (7, 20, 100)
    assert config.workloads.resnet50.image_size == 224


def test_a_dumped_config_says_everything_and_loads_as_the_same_config():
    config = load(small())
    text = dump(config)
    assert "timeout_seconds: 1800" in text
    assert load(yaml.safe_load(text)) == config
    assert dump(load(yaml.safe_load(text))) == text


def test_bare_off_and_on_mean_the_words_although_yaml_reads_booleans():
    section = yaml.safe_load("compilers: [off, on, default]")
    assert section["compilers"][:2] == [False, True]
    config = load(small(workloads=resnet50(**section)))
    assert config.workloads.resnet50.compilers == ["off", "on", "default"]
    assert load(yaml.safe_load(dump(config))) == config


def test_all_problems_are_told_at_once_each_with_file_key_and_value():
    lines = problems(
        small(
            round="my round",
            device="gpu",
            frameworks=["pytroch", "jax", "jax"],
            topologies=["1n1d", "1x8"],
            repetitions=0,
            workloads=resnet50(precisions=["fp32", "amp"], image_size="64", data=["sampel"]),
            stpes={"warmup": 2},
        )
    )
    assert all(line.startswith("mine.yaml: ") for line in lines)
    told = {line.split(": ")[1]: line.split(": ", 2)[2] for line in lines}
    assert told["round"].startswith("'my round' ")
    assert told["device"].startswith("'gpu' ")
    assert told["frameworks[0]"].startswith("'pytroch' ")
    assert told["frameworks[2]"] == "'jax' stands twice in this list; leave one out"
    assert told["topologies[1]"].startswith("'1x8' ")
    assert told["repetitions"] == "0 must be greater than or equal to 1"
    assert told["workloads.resnet50.image_size"].startswith("'64' must be of the type integer")
    assert told["workloads.resnet50.data[0]"].startswith("'sampel' ")
    assert told["workloads.resnet50.batch_sizes.amp"] == "is missing, but `precisions` has 'amp'"
    assert "{'warmup': 2}" in told["stpes"]
    assert len(lines) == len(told) == 10


@pytest.mark.parametrize(
    ("changes", "nearest"),
    [
        ({"frameworks": ["pytroch"]}, "pytorch"),
        ({"frameworks": ["PyTorch"]}, "pytorch"),
        ({"frameworks": ["tf"]}, "tensorflow"),
        ({"device": "gpu"}, "cuda"),
        ({"on_failure": "recrod"}, "record"),
        ({"retry": ["crash"]}, "crashed"),
        ({"stpes": {}}, "steps"),
        ({"image_size": 64}, "workloads.resnet50.image_size"),
        ({"workloads": resnet50(compilers=["indcutor"])}, "inductor"),
        ({"workloads": resnet50(imagesize=64)}, "image_size"),
        ({"workloads": {**resnet50(), "resnet": {}}}, "resnet50"),
        ({"environments": {"interpreters": {"jaxx": "python3"}}}, "jax"),
    ],
    ids=str,
)
def test_a_wrong_name_is_told_with_the_nearest_right_one(changes, nearest):
    line = only_problem(small(**changes))
    assert f"did you mean '{nearest}'?" in line
    assert "[allowed: " in line


def test_a_compiler_must_belong_to_a_framework_of_the_round():
    config = small(frameworks=["jax"], workloads=resnet50(compilers=["inductor"]))
    assert "[allowed: default, off, on, xla]" in only_problem(config)


def test_a_choice_of_other_scenarios_than_those_asked_for_is_refused():
    assert load(small(workloads=resnet50(scenarios=["train", "infer"], fold=[True])))
    assert load(small(workloads=resnet50(fold=[False])))
    (line,) = problems(small(workloads=resnet50(fold=[False, True])))
    assert line.endswith(
        "workloads.resnet50.fold: True is a choice in `infer` and `server` only; leave it out, or "
        "add 'infer' to `scenarios`"
    )


@pytest.mark.parametrize(
    "asked", [{"layouts": [{"accumulation": 2}]}, {"global_batch_sizes": {"fp32": [8]}}]
)
def test_how_to_train_is_refused_where_nothing_trains(asked):
    infer = {"scenarios": ["infer"], "infer": {"batch_sizes": {"fp32": [1]}}}
    assert load(small(workloads=resnet50(**infer)))
    (line,) = problems(small(workloads=resnet50(**infer, **asked)))
    (key,) = asked
    assert f"workloads.resnet50.{key}: is for `train` only; leave it out" in line


def test_a_section_may_have_frameworks_of_its_own():
    """They need not be the round's, and their compilers may be named."""
    section = {"frameworks": ["jax"], "compilers": ["xla"], "also": [{"frameworks": ["pytorch"]}]}
    config = load(small(frameworks=["pytorch"], workloads=resnet50(**section)))
    assert config.all_frameworks == ["pytorch", "jax"]
    assert load(dump_and_parse(config)).all_frameworks == ["pytorch", "jax"]
    # the round's own list is for sections without one: what none of them takes is not built
    unused = load(small(frameworks=["pytorch"], workloads=resnet50(frameworks=["jax"])))
    assert unused.all_frameworks == ["jax"]
    wrong = resnet50(frameworks=["jaxx"], compilers=["xla"])
    line = only_problem(small(frameworks=["pytorch"], workloads=wrong))
    assert "workloads.resnet50.frameworks[0]: 'jaxx' " in line and "'jax'" in line
    line = only_problem(small(workloads=resnet50(also=[{"frameworks": ["jax", "jax"]}])))
    assert "workloads.resnet50.also[0].frameworks[1]" in line and "twice" in line


def dump_and_parse(config):
    return yaml.safe_load(dump(config))


def test_a_wrong_framework_does_not_make_right_compilers_wrong():
    config = small(frameworks=["pytroch"], workloads=resnet50(compilers=["inductor"]))
    assert "frameworks[0]" in only_problem(config)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "a/b",
        ".x",
        "a b",
        "data",
        "environments",
        2024,
        "README.md",
        "slurm_logs",
        "x.zip",
    ],
)
def test_a_round_must_be_a_safe_name_for_its_folder(name):
    assert only_problem(small(round=name)).startswith("mine.yaml: round: ")


@pytest.mark.parametrize(
    "topology", ["0n1d", "1n0d", "n1d", "1n1", "1N1D", "01n1d", "1n1d\n"], ids=repr
)
def test_a_topology_counts_nodes_and_devices_from_one(topology):
    assert "such as 2n8d" in only_problem(small(topologies=[topology]))


@pytest.mark.parametrize(
    "changes",
    [
        {"repetitions": True},
        {"repetitions": "3"},
        {"repetitions": 2.5},
        {"frameworks": []},
        {"frameworks": "pytorch"},
        {"workloads": {}},
        {"steps": {"warmup": 0, "measured": 1}},
        {"steps": {"warmup": 1, "measured": 0}},
        {"steps": None},
        {"timeout_seconds": -1},
        {"workloads": resnet50(batch_sizes={"fp32": [0]})},
        {"workloads": resnet50(batch_sizes={"fp32": 8})},
        {"workloads": resnet50(image_size=16)},
        {"repetitions": 10**30},
        {"steps": {"warmup": 1, "measured": 10**30}},
        {"timeout_seconds": float("inf")},
        {"minimum_seconds": -1},
        {"minimum_seconds": "10"},
        {"minimum_seconds": True},
        {"minimum_seconds": float("inf")},
        {"minimum_seconds": float("nan")},
        {"minimum_seconds": 10**30},
        {"peaks": {"a GPU": {"fp32": float("inf")}}},
        {"workloads": resnet50(batch_sizes={"fp32": [10**30]})},
        {"cluster": {"launcher": "srun {nodes.real}"}},
        {"cluster": {"launcher": "srun {nodes:>999999999}"}},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_or_size_is_a_problem(changes):
    only_problem(small(**changes))


def test_keys_that_must_be_given_are_named_with_an_example():
    lines = problems({})
    assert "mine.yaml: round: is missing, such as 'laptop'" in lines
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("round: a\nround: b\n", "line 2, column 1: not YAML: the key 'round' stands here a sec"),
        ("round: [a\n", "not YAML: "),
        ("- laptop\n", "must hold keys and values"),
        ("round: \xff\n", "not UTF-8"),
        ("round: 2020-13-45\n", "not YAML that can be read: month must be in 1..12"),
        ("x: &x [*x]\n", "an alias (`*`) holds itself"),
        ("x: " + 1000 * "[" + 1000 * "]", "nested too deeply"),
        (
            "a0: &a0 [1]\n"
            + "".join(f"a{n}: &a{n} [{10 * f'*a{n - 1},'}]\n" for n in range(1, 20)),
            "values, its aliases (`*`) written out; at most 100,000",
        ),
    ],
    ids=["key twice", "broken", "list", "latin-1", "date", "loop", "deep", "alias bomb"],
)
def test_a_file_that_is_no_config_is_told_by_its_name(tmp_path, text, told):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="mine.yaml: ") as caught:
        load(path)
    assert told in str(caught.value)


def test_a_published_round_that_does_not_exist_is_told_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"beside\[1\]: 'dlperf-v2' .* did you mean 'dlperf-v1'"):
        check_beside(
            load(small(beside=["dlperf-v1", "dlperf-v2"])), "mine.yaml", CONFIG / "published"
        )


def test_other_rounds_may_stand_beside_one_by_name_or_by_path(tmp_path):
    (tmp_path / "before").mkdir()
    (tmp_path / "before/config.yaml").touch()
    config = load(small(beside=["dlperf-v1", "results/dlperf-v1", "before", "/data/an archive/x/"]))
    found = check_beside(config, "mine.yaml", CONFIG / "published", tmp_path)
    assert found == ["results/dlperf-v1", "before", "/data/an archive/x/"]
    config = load(small(beside=["before", "/data/before/"]))
    with pytest.raises(ConfigError, match=r"beside\[1\]: '/data/before/' has the name of another"):
        check_beside(config, "mine.yaml", CONFIG / "published", tmp_path)


@pytest.mark.parametrize("name", ["..", "a/..", "/", "", "-x", "a/\n", 7])
def test_what_names_no_folder_is_told(name):
    with pytest.raises(ConfigError, match=r"beside\[0\]: .* (is not the name of|must be)"):
        load(small(beside=[name]))


@pytest.mark.parametrize("margin", [0, 1, 5, -0.05, float("nan")])
def test_a_margin_that_is_no_share_is_told(margin):
    with pytest.raises(ConfigError, match="beside_margin: .*is no share above 0 and below 1"):
        load(small(beside_margin=margin))


def test_a_missing_file_is_told_with_the_nearest_one_beside_it(tmp_path):
    (tmp_path / "quick.yaml").touch()
    with pytest.raises(ConfigError, match=r"did you mean '.*/quick\.yaml'"):
        load(tmp_path / "quik.yaml")


names = [key.split(".")[-1] for key, _ in keys(Config)] + ["fp32", "amp", "jax", "unknown"]
values = st.none() | st.booleans() | st.integers() | st.sampled_from(names)
content = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(names) | st.integers(), content))
def test_no_content_whatever_ends_in_a_traceback(mapping):
    with pytest.raises(ConfigError):
        load({**mapping, "round": "data"})


def test_more_devices_than_this_machine_has_are_told_for_this_machine_only():
    config = load(small(topologies=["1n1d", "1n4d", "2n1d"], cores_per_device=2))
    four, two_nodes = problems_here(config, cores=4)
    assert four == (
        "topologies[1]: 1n4d needs 8 cores (4 devices x 2 cores_per_device), but this machine has 4"
    )
    assert two_nodes.startswith("topologies[2]: 2n1d needs 2 nodes")
    assert problems_here(load(small(topologies=["1n2d"])), cores=2) == []


def test_an_interpreter_that_is_not_there_is_told(tmp_path):
    interpreters = {"jax": str(tmp_path / "python3"), "pytorch": __file__}
    config = load(small(environments={"interpreters": interpreters}))
    (line,) = problems_here(config, cores=1)
    assert line.startswith("environments.interpreters.jax: ")


def test_every_key_has_a_description_and_every_value_an_example():
    for key, field in keys(Config):
        assert field.description, key
        section = any(other.startswith(f"{key}.") for other, _ in keys(Config))
        assert field.examples or section, key


def test_the_schema_allows_no_unknown_key_in_any_section():
    schema = json.loads(json_schema())
    assert schema["additionalProperties"] is False
    assert all(section["additionalProperties"] is False for section in schema["$defs"].values())


class TestGeneratedFiles:
    """These are about the real frameworks, not the two of the fixture."""

    @pytest.fixture(autouse=True)
    def real_frameworks(self, two_frameworks, monkeypatch):
        monkeypatch.undo()

    def test_schema_json_is_what_the_models_say(self):
        text = (CONFIG / "schema.json").read_text()
        assert text == json_schema(), "run: python -m dlperf.plan schema"

    def test_the_readme_explains_every_key_as_the_models_do(self):
        text = (CONFIG / "README.md").read_text()
        assert text == with_table(text), "run: python -m dlperf.plan schema"


def wide_deep(**changes):
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, **changes}
    return {"wide_deep": section}


def test_a_width_that_devices_cannot_share_out_is_one_message():
    tables = ["replicated", "sharded"]
    config = small(
        workloads=wide_deep(width=18, tables=tables), topologies=["1n1d", "1n2d", "2n2d"]
    )
    assert only_problem(config) == (
        "mine.yaml: workloads.wide_deep.width: 18 is not divided by the 4 devices of 2n2d, which "
        "share it out with `tables: [sharded]`; give a multiple of 4, such as 20, or leave out "
        "'sharded' or 2n2d"
    )


def test_a_vocabulary_below_the_datas_ids_is_one_message():
    few = {"data": ["synthetic", "sample"], "vocabulary": [14_667, 14_668]}
    assert only_problem(small(workloads=wide_deep(**few))) == (
        "mine.yaml: workloads.wide_deep.vocabulary: 14667 is below the 14,668 that `data: "
        "[sample]` needs; give as many or more, or ask for other data"
    )
    load(small(workloads=wide_deep(**{**few, "vocabulary": 14_668})), "mine.yaml")
    load(small(workloads=wide_deep(data=["synthetic"], vocabulary=26)), "mine.yaml")
    also = wide_deep(data=["sample"], also=[{"vocabulary": 100}])
    assert "workloads.wide_deep.also[0].vocabulary: 100 is below" in only_problem(
        small(workloads=also)
    )
    # the parts of a section may have data of their own
    tested = {"scenarios": ["quality"], "data": ["synthetic"], "vocabulary": 100}
    for own, said in (
        ({"scenarios": ["infer"], "vocabulary": 100, "infer": {"data": ["sample"]}}, "vocabulary"),
        ({**tested, "quality": {"epochs": [1]}}, "vocabulary"),  # the sample, if it says nothing
        (
            {**tested, "quality": {"epochs": [1], "vocabulary": [99, 20_000]}},
            "quality.vocabulary: 99",
        ),
    ):
        assert f"workloads.wide_deep.{said}" in only_problem(small(workloads=wide_deep(**own)))
    enough = {"data": ["sample"], "quality": {"epochs": [1], "vocabulary": 20_000}}
    load(small(workloads=wide_deep(**{**tested, **enough})), "mine.yaml")
    load(small(workloads=wide_deep(**{**tested, "scenarios": ["train"]})), "mine.yaml")
    untested = {"scenarios": ["quality"], "precisions": ["fp32"], "batch_sizes": {"fp32": [8]}}
    load(small(workloads={"electra": {**untested, "quality": {"epochs": [1]}}}), "mine.yaml")


@pytest.mark.parametrize("changes", [{"width": 20}, {"tables": ["replicated"]}])
def test_a_width_that_is_not_shared_out_or_evenly_is_none(changes):
    section = wide_deep(**{"width": 18, "tables": ["sharded"], **changes})
    load(small(workloads=section, topologies=["1n1d", "1n2d", "2n2d"]), "mine.yaml")
