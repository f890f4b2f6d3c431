"""Each cell of config/published is planned by a round that is held against it (`beside`), as the
same work; not_planned.tsv beside this file has those that are not, each with the reason."""

import csv
import dataclasses
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from published_cells import CARDS, PUBLICATIONS, Published, cells, nearest
from round_files import ROUNDS, name_of

from dlperf.plan import check_beside, expand, load, read_written
from dlperf.plan.cases import Case
from dlperf.plan.config import Config

TABLE = Path(__file__).with_name("not_planned.tsv")
#: In the table: the framework cannot do such a case at all, so that a nearest one says nothing.
NOTHING_ALIKE = "*"
#: What each round of a publication reads: of synthetic batches the speed without reading, of others
#: what was published, or what stands in for it. Each kind is there for a reason of its own, and the
#: other one does not replace it, though a published cell may be as near to both.
DATA = {
    "dlperf-v1": {"resnet50 train": {"synthetic", "imagenet", "imagenet_dali"}},
    "dlperf-v1-synthetic": {"resnet50 train": {"synthetic"}},  # without ImageNet
    "dlperf-v1-v100": {"resnet50 train": {"synthetic", "imagenet", "imagenet_dali"}},
    "dlperf-v1-bert": {"bert train": {"synthetic"}},
    "dlperf-v1-bert-v100": {"bert train": {"wikipedia"}},
    "dlperf-v1-gpt": {"gpt train": {"synthetic"}},
    "dlperf-v1-insightface": {"insightface train": {"synthetic"}},
    "dlperf-v1-insightface-classes": {"insightface train": {"synthetic"}},
    "dlperf-v1-wide-deep": {"wide_deep train": {"synthetic"}},
    "nvidia-electra": {"electra train": {"synthetic"}},
    # one of the two corpora
    "nvidia-electra-final-loss": {"electra quality": {"wikipedia"}},
    "nvidia-electra-final-loss-384": {"electra quality": {"wikipedia"}},
    "nvidia-electra-final-loss-tf32": {"electra quality": {"wikipedia"}},
    "nvidia-electra-final-loss-tf32-384": {"electra quality": {"wikipedia"}},
    "nvidia-electra-final-loss-v100-384": {"electra quality": {"wikipedia"}},
    "nvidia-electra-v100-16gb": {"electra train": {"synthetic"}},
    "nvidia-electra-v100-32gb": {"electra train": {"synthetic"}},
    "nvidia-electra-squad": {
        "electra_squad train": {"synthetic", "squad"},
        "electra_squad infer": {"synthetic", "squad"},
        "electra_squad quality": {"squad", "squad2"},
    },
    "nvidia-electra-squad-t4": {"electra_squad infer": {"synthetic", "squad"}},
    "nvidia-electra-squad-v100-16gb": {
        "electra_squad train": {"synthetic", "squad"},
        "electra_squad quality": {"squad", "squad2"},
    },
    "nvidia-electra-squad-v100-32gb": {
        "electra_squad train": {"synthetic", "squad"},
        "electra_squad quality": {"squad", "squad2"},
    },
    "nvidia-resnet50": {
        "resnet50 train": {"synthetic", "imagenet"},
        "resnet50 infer": {"synthetic"},  # 512 are more than the photographs of `sample`
        "resnet50 quality": {"imagenet"},
    },
    "nvidia-resnet50-photographs": {"resnet50 infer": {"sample"}},
    "nvidia-resnet50-dgx-1": {
        "resnet50 train": {"synthetic", "imagenet"},
        "resnet50 infer": {"synthetic", "sample"},
        "resnet50 quality": {"imagenet"},
    },
    "nvidia-resnet50-dgx-1-mixup": {"resnet50 quality": {"imagenet"}},
    "nvidia-resnet50-dgx-1-stability": {"resnet50 quality": {"imagenet"}},
    "nvidia-resnet50-dgx-2": {"resnet50 train": {"synthetic", "imagenet"}},
    "nvidia-resnet50-t4": {"resnet50 infer": {"synthetic", "sample"}},
}


@cache
def rounds() -> list[tuple[Config, list[Case]]]:
    """Each round with the cases that it runs."""
    configs = [load(paths) for paths in ROUNDS]
    return [(each, [c for c in expand(each) if not c.unsupported]) for each in configs]


@cache
def beside(publication: str, card: str = "") -> list[Case]:
    """The cases of all rounds for a card that are held against a publication."""
    return [
        case
        for config, own in rounds()
        if publication in config.beside and card in ("", CARDS.get(config.round, card))
        for case in own
    ]


def reasons() -> list[dict[str, str]]:
    with open(TABLE, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def otherwise(publication: Path) -> Counter:
    """(workload, framework, scenario, what the nearest case does otherwise) -> cells."""
    found = (
        (cell, nearest(cell, beside(publication.stem, cell.card))) for cell in cells(publication)
    )
    return Counter(
        (cell.workload, cell.framework, cell.scenario, " ".join(differs))
        for cell, differs in found
        if differs
    )


@pytest.mark.parametrize("publication", PUBLICATIONS, ids=lambda path: path.stem)
def test_each_published_cell_is_planned_or_the_table_says_why_not(publication):
    listed = [row for row in reasons() if row["publication"] == publication.stem]
    keys = ("workload", "framework", "scenario", "differs")
    expected = Counter({tuple(row[key] for key in keys): int(row["cells"]) for row in listed})
    found = otherwise(publication)
    for of in [key for key in expected if key[-1] == NOTHING_ALIKE]:
        alike = [key for key in found if key[:3] == of[:3] and key not in expected]
        found[of] = sum(found.pop(key) for key in alike)
    assert found == expected


def test_each_reason_is_a_line():
    for row in reasons():
        assert 10 < len(row["reason"]) <= 120, row


def test_each_publication_stands_beside_a_round_and_each_round_beside_publications_that_exist():
    named = {entry for config, _ in rounds() for entry in config.beside}
    assert named == {path.stem for path in PUBLICATIONS}
    for config, _ in rounds():
        assert check_beside(config, config.round) == [], config.round  # no results of others


def test_a_round_of_a_publication_has_some_of_its_cells():
    for config, own in rounds():
        for entry in config.beside:
            (publication,) = [path for path in PUBLICATIONS if path.stem == entry]
            # but for published data, which not every round has
            differs = [
                set(nearest(cell, own))
                for cell in cells(publication)
                if cell.card == CARDS.get(config.round, cell.card)
            ]
            assert any(each <= {"data"} for each in differs), (config.round, entry)


def kinds(cases: list[Case]) -> dict[str, set[str]]:
    """The kinds of data of these cases, by workload and scenario."""
    found: dict[str, set[str]] = {}
    for case in cases:
        found.setdefault(f"{case.workload} {case.scenario}", set()).add(case.data)
    return found


def test_each_round_of_a_publication_reads_all_its_kinds_of_data():
    assert {config.round: kinds(own) for config, own in rounds() if config.beside} == DATA


@pytest.mark.parametrize("kind", ["synthetic", "imagenet", "imagenet_dali"])
def test_a_kind_of_data_that_is_dropped_from_a_round_is_missed(kind: str):
    """Beside DLPerf's table of ResNet-50, which says that it was on ImageNet."""
    (paths,) = [each for each in ROUNDS if name_of(each) == "dlperf-v1"]
    written, _ = read_written(paths[0], str(paths[0]))
    section = written["workloads"]["resnet50"]
    section["data"] = [each for each in section["data"] if each != kind]
    section["also"] = [each for each in section["also"] if kind not in each.get("data", [])]
    own = [case for case in expand(load(written)) if not case.unsupported]
    assert kinds(own)["resnet50 train"] == DATA["dlperf-v1"]["resnet50 train"] - {kind}


def test_paddlepaddle_is_planned_with_dali_where_it_is_published_so():
    """And a case that reads otherwise is not taken for it."""
    (publication,) = [path for path in PUBLICATIONS if path.stem == "dlperf-v1"]
    with_dali = [cell for cell in cells(publication) if cell.data == "imagenet_dali"]
    assert {(cell.framework, cell.batch_size) for cell in with_dali} == {("paddlepaddle", 196)}
    assert {cell.topology for cell in with_dali} == {"1n1d", "1n8d", "2n8d", "4n8d"}
    own = beside("dlperf-v1")
    without = [case for case in own if case.data != "imagenet_dali"]
    for cell in with_dali:
        assert nearest(cell, own) == []
        assert nearest(cell, without) == ["data"]


def planned() -> tuple[Published, Case]:
    """A published cell, and the case that is the same work."""
    (publication,) = [path for path in PUBLICATIONS if path.stem == "nvidia-electra"]
    for cell in cells(publication):
        for case in beside("nvidia-electra"):
            alike = (case.workload, case.framework) == (cell.workload, cell.framework)
            if alike and case.scenario == cell.scenario == "train" and not cell.differs(case):
                return cell, case
    raise AssertionError("none is planned")


def test_other_work_is_not_taken_for_the_published():
    cell, case = planned()
    other = {
        "batch_size": ("batch", 2 * case.batch_size),
        "nodes": ("topology", 2),
        "data": ("data", "synthetic"),
        "searched": ("batch", "batch_size"),
        "precision": ("precision", "amp_bf16"),
    }
    for name, (word, value) in other.items():
        assert cell.differs(dataclasses.replace(case, **{name: value})) == [word]
    assert nearest(cell, []) == ["no case"]
    assert nearest(cell, [dataclasses.replace(case, framework="pytorch")]) == ["no case"]
    eager = dataclasses.replace(case, compiler="none")
    assert nearest(dataclasses.replace(cell, xla=True), [eager]) == ["compiler"]
    longer = dataclasses.replace(cell, sizes=(("sequence_length", 512),))
    assert nearest(longer, [case]) == ["sequence_length"]
    more_steps = dataclasses.replace(cell, layout=(("accumulation", 2),))
    assert nearest(more_steps, [case]) == ["accumulation"]


def test_mixed_precision_is_published_in_float16():
    """Which `amp` is on a V100, and on an A100 in frameworks that have nothing else."""
    of = {
        case.framework: case for case in beside("nvidia-mxnet-resnet50") if case.precision == "amp"
    }
    for card, framework, same in (
        ("V100-16GB", "tensorflow", True),
        ("A100-80GB", "mxnet", True),
        ("A100-80GB", "tensorflow", False),
    ):
        case = of[framework]
        cell = Published("resnet50", framework, case.scenario, "amp", case.topology, card)
        cell = dataclasses.replace(cell, batch_size=case.batch_size)
        assert (cell.differs(case) == []) == same, (card, framework)
        as_published = dataclasses.replace(case, precision="amp_fp16")
        assert cell.differs(as_published) == []
