"""`max` in a config: what it asks for, where it may not stand, and how its cases are named."""

import dataclasses

import pytest

from dlperf import plan, workloads
from dlperf.analysis.round import names
from dlperf.contract import searched
from dlperf.contract.case import problems
from dlperf.contract.dimension import Dimension
from dlperf.plan import searches
from dlperf.plan.show import show, tsv
from dlperf.plan.state import states
from dlperf.workloads.cases import known, parse_case

RESNET50 = workloads.of("resnet50")


def config(section=None, **changes):
    resnet50 = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8, "max"]}, "compilers": ["off"]}
    content = {
        "round": "mine",
        "device": "cpu",
        "frameworks": ["pytorch"],
        "workloads": {"resnet50": {**resnet50, **(section or {})}},
        "topologies": ["1n1d"],
        "memory_limit": "4 GB",
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def wrong(*arguments, **changes) -> list[str]:
    with pytest.raises(plan.ConfigError) as told:
        plan.load(config(*arguments, **changes))
    return str(told.value).splitlines()


@pytest.fixture
def searched_width(monkeypatch):
    """ResNet-50 with a made-up dimension whose largest value can be searched."""
    width = Dimension("w", 64, "A width.", minimum=16, maximum=4096, examples=(64,), granule=16)
    declared = {**RESNET50.dimensions, "width": width}
    own = dataclasses.replace(RESNET50, dimensions=declared)
    monkeypatch.setattr(workloads, "of", lambda name: own)
    monkeypatch.setattr(workloads, "dimensions", lambda name: declared)
    monkeypatch.delattr(plan.made_sections, "Resnet50")  # the section with the workload's own keys
    return declared


def test_max_is_a_case_of_its_own_beside_the_given_batches():
    given, largest = plan.expand(plan.load(config()))
    assert (given.batch_size, given.searched) == (8, "")
    assert (largest.batch_size, largest.searched) == (0, "batch_size")
    assert largest.name == "train-fp32-1n1d-bmax-synthetic"
    assert parse_case(largest.folder) == largest
    assert searched.path_of(largest) == f"searches/{largest.folder}.json"
    assert names.table_ids([given, largest]) == [
        "resnet50-train-fp32-b8",
        "resnet50-train-fp32-bmax",
    ]


def test_max_of_inference_is_its_own_too():
    section = {"scenarios": ["train", "infer"], "batch_sizes": {"fp32": [8]}}
    own = plan.load(config({**section, "infer": {"batch_sizes": {"fp32": ["max"]}}}))
    assert [case.name for case in plan.expand(own)] == [
        "train-fp32-1n1d-b8-synthetic",
        "infer-fp32-1n1d-bmax-synthetic",
    ]


def test_tables_of_the_largest_have_no_figure_of_scaling():
    cases = plan.expand(plan.load(config(topologies=["1n1d", "1n2d"])))
    scaling = [name for name in names.figure_ids(cases) if name.endswith(names.SCALING)]
    assert scaling == ["resnet50-train-fp32-b8-scaling"]


def test_the_document_of_a_case_asks_for_the_least_until_the_search_has_found_a_number(tmp_path):
    own = plan.load(config())
    _, case = plan.expand(own)
    document = plan.document(case, own, 1)
    assert (document["identity"]["batch_size"], document["identity"]["searched"]) == (
        1,
        "batch_size",
    )
    assert document["settings"]["memory_limit_bytes"] == 4 * 10**9
    assert problems(document, known()) == []

    assert searches.found(case, tmp_path) == case
    path = tmp_path / searched.path_of(case)
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": "dlperf.search/1", "status": "ok", "reason": "", "value": 616}')
    found = searches.found(case, tmp_path)
    assert (found.batch_size, found.folder) == (616, case.folder)
    assert plan.document(found, own, 1)["identity"]["batch_size"] == 616


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"schema": "dlperf.search/1"}', '{"schema": "dlperf.search/1", "value": 0}'],
)
def test_a_file_that_is_no_search_is_named(tmp_path, content):
    path = tmp_path / "case.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="case.json: "):
        searched.read(path)


def test_a_plan_is_the_same_before_and_after_a_search_and_says_what_is_searched(tmp_path):
    own = plan.load(config())
    lines = [line.split("\t") for line in tsv(own, plan.expand(own)).splitlines()]
    column = lines[0].index("batch_size")
    assert {line[column] for line in lines[1:]} == {"8", "max"}
    assert "Searches for the largest that fits: 1, 1 to do" in show(own, plan.expand(own), tmp_path)


def test_a_plan_says_what_replays_of_searched_sizes_take_at_most(tmp_path):
    def said(**checks):
        steps = {"warmup": 1, "measured": 2}
        own = plan.load(config(checks={"gigabytes": 20, **checks}, steps=steps))
        return show(own, plan.expand(own), tmp_path)

    limit = "at most 600 s for each group whose sizes are searched"
    assert limit in said() and limit not in said(seconds=0)
    assert "a replay would take about 12.0 GB" in said(gigabytes=8)


def test_a_round_without_a_limit_has_documents_as_before():
    own = plan.load(config({"batch_sizes": {"fp32": [8]}}, memory_limit=None))
    (case,) = plan.expand(own)
    assert "memory_limit_bytes" not in plan.document(case, own, 1)["settings"]


def test_a_record_without_a_limit_is_outdated_where_there_is_one(tmp_path):
    own = plan.load(config({"batch_sizes": {"fp32": [8]}}, repetitions=1))
    (case,) = plan.expand(own)
    path = tmp_path / "mine/runs" / case.folder / "rep1.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": "x", "status": "ok", "settings": {"device": "cpu"}}')
    assert set(states(own, [case], tmp_path).values()) == {"outdated"}


@pytest.mark.parametrize(
    ("text", "count"),
    [("4 GB", 4e9), ("4GiB", 2**32), ("0.5 GB", 5e8), ("800 MB", 8e8), (10**9, 1e9)],
)
def test_memory_is_an_amount_with_its_unit(text, count):
    assert plan.load(config(memory_limit=text)).memory_limit == count


@pytest.mark.parametrize(
    "value", ["", "4", 4, "4 MB", "lots", "4 gb", "-1 GB", "0 GB", 0, -5, 4.5, True, [4]]
)
def test_another_amount_of_memory_is_told(value):
    (line,) = wrong(memory_limit=value)
    message = "is no amount of memory such as '4 GB' or '4 GiB', of 100 MB or more"
    assert line == f"config: memory_limit: {value!r} {message}"


def test_a_search_on_a_cpu_needs_a_limit_of_memory():
    (line,) = wrong(memory_limit=None)
    assert line.startswith(
        "config: memory_limit: is missing, but workloads.resnet50.batch_sizes.fp32 has `max`"
    )


def test_a_search_can_have_a_limit_of_its_own():
    own = plan.load(config(memory_limit=None, search={"memory_limit": "2 GB"}))
    given, searched_for = plan.expand(own)
    assert "memory_limit_bytes" not in plan.document(given, own, 1)["settings"]
    assert plan.document(searched_for, own, 1)["settings"]["memory_limit_bytes"] == 2 * 10**9
    both = plan.load(config(search={"memory_limit": "2 GB"}))
    assert plan.document(given, both, 1)["settings"]["memory_limit_bytes"] == 4 * 10**9


def test_a_limit_is_of_cpus_only():
    (line,) = wrong(device="cuda")
    assert line.startswith("config: memory_limit: '4 GB' is for `device: cpu`")
    (line,) = wrong(device="cuda", memory_limit=None, search={"memory_limit": "2 GB"})
    assert line.startswith("config: search.memory_limit: '2 GB' is for `device: cpu`")
    plan.load(config(device="cuda", memory_limit=None))


def test_a_word_that_is_nearly_max_is_told():
    (line,) = wrong({"batch_sizes": {"fp32": ["maxx"]}}, memory_limit=None)
    assert line == (
        "config: workloads.resnet50.batch_sizes.fp32[0]: 'maxx' is no number; did you mean 'max'? "
        "[allowed: max]"
    )


def test_a_scenario_that_trains_with_a_given_batch_cannot_search_one():
    from dlperf.plan.relations import cannot_be_searched

    section = {"scenarios": ["quality"], "batch_sizes": {"fp32": ["max"]}}
    (problem,) = cannot_be_searched(config(section))
    assert str(problem).startswith(
        "workloads.resnet50.batch_sizes.fp32: max cannot be searched for `quality`"
    )


def test_a_size_that_no_search_knows_cannot_be_max():
    (line,) = wrong({"batch_sizes": {"fp32": [8]}, "image_size": "max"})
    assert "workloads.resnet50.image_size" in line


def test_a_dimension_that_says_so_is_searched_by_the_same_search(searched_width):
    section = plan.made_sections._section("resnet50")
    asked = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "width": "max"}
    assert section.model_validate(asked).dimensions_of("train") == [
        {"image_size": 224, "fold": 0, "mixup": 0, "width": "max"}
    ]
    own = plan.load(config({"batch_sizes": {"fp32": [8]}}))
    sizes, name = plan.cases._dimensions("resnet50", "train", {"image_size": 64, "width": "max"})
    assert (dict(sizes), name) == ({"image_size": 64, "fold": 0, "mixup": 0, "width": 0}, "width")
    (case,) = plan.expand(own)
    case = case.__class__(**{**vars(case), "dimensions": sizes, "searched": name})
    assert case.name == "train-fp32-1n1d-b8-synthetic-px64-wmax"
    assert parse_case(case.folder) == case
    assert plan.search_of(case, own) == {
        **{"least": 16, "most": 4096, "granule": 16, "fine": 16},
        **{"steps": 4, "repetitions": 2},
    }
    document = plan.document(case, own, 1)
    assert (document["identity"]["width"], document["identity"]["searched"]) == (16, "width")
    assert case.sized(128).dimensions["width"] == 128
    assert case.sized(128).name == case.name
    assert names.table_ids([case]) == ["resnet50-train-fp32-b8-wmax"]


def test_two_sizes_at_once_are_not_searched(searched_width):
    (line,) = [line for line in wrong({"width": "max"}) if "one size at a time" in line]
    assert line.endswith("but `max` stands in batch_sizes.fp32, width")


def of_vocabulary(**section):
    wide_deep = {
        **{"precisions": ["fp32"], "batch_sizes": {"fp32": [512]}, "compilers": ["off"]},
        **{"width": 16, "layers": 2, "vocabulary": [260_000, "max"], **section},
    }
    return {**config(), "workloads": {"wide_deep": wide_deep}}


def test_the_largest_vocabulary_is_searched_beside_given_ones():
    own = plan.load(of_vocabulary())
    given, largest = plan.expand(own)
    assert (given.dimensions["vocabulary"], given.searched) == (260_000, "")
    assert (largest.dimensions["vocabulary"], largest.searched) == (0, "vocabulary")
    assert largest.name == "train-fp32-1n1d-b512-synthetic-vocmax-l2"
    assert parse_case(largest.folder) == largest
    how = plan.search_of(largest, own)
    assert (how["granule"], how["fine"], how["most"]) == (100_000, 100_000, 2**31 - 1)
    assert names.table_ids([given, largest]) == [
        "wide_deep-train-fp32-b512-voc260000",
        "wide_deep-train-fp32-b512-vocmax",
    ]


def test_a_vocabulary_is_not_searched_with_data_of_a_fixed_size():
    with pytest.raises(plan.ConfigError) as told:
        plan.load(of_vocabulary(data=["synthetic", "sample"]))
    assert str(told.value) == (
        "config: workloads.wide_deep.data: sample is of a fixed size, but "
        "workloads.wide_deep.vocabulary has `max`: search with `data: [synthetic]`, which lies "
        "over all sizes, or give a number"
    )


@pytest.mark.parametrize("also", [{"vocabulary": "max"}, {"vocabulary": [26, "max"]}])
def test_a_search_of_more_cases_needs_a_limit_of_memory_too(also):
    section = of_vocabulary(vocabulary=260_000, also=[also])
    own = plan.expand(plan.load(section))
    assert [case.searched for case in own][-1] == "vocabulary"
    with pytest.raises(plan.ConfigError, match=r"workloads.wide_deep.also\[0\].vocabulary has"):
        plan.load({key: value for key, value in section.items() if key != "memory_limit"})
