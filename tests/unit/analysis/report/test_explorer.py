"""What the explorer offers to choose and compare, and the data that it hands to the libraries."""

import json

from analysed_round import SMALL, analyse, mxnet_fails
from generated_round import config, write_round

from dlperf.analysis.report import explorer, scripts
from dlperf.analysis.schema.files import read_table


def explored(tmp_path, mapping=SMALL, **options):
    results = write_round(tmp_path, mapping, **options)
    analyse(results)
    made = explorer.explorer(
        read_table(results / "cells.tsv"), read_table(results / "measurements.tsv.gz")
    )
    return made, json.loads(made.json)


def test_what_all_cells_share_is_no_choice_and_neither_is_what_follows_from_another(tmp_path):
    made, _ = explored(tmp_path)  # MXNet's compiler is its own, and the only one
    assert made.choices == [
        ("framework", "Framework", ["PyTorch", "MXNet"]),
        ("topology", "Nodes and devices", ["1n1d", "1n2d"]),
    ]


def test_what_varies_can_be_compared_the_framework_first(tmp_path):
    mapping = config(
        frameworks=["pytorch", "mxnet"],
        resnet50_precisions=["fp32", "amp"],
        resnet50_batch_sizes={"fp32": [8], "amp": [8, 16]},
        resnet50_compilers=["off", "on"],
    )
    made, data = explored(tmp_path, mapping)
    assert [key for key, _, _ in made.choices] == [
        *("framework", "precision", "topology", "batch", "compiler"),
    ]
    assert made.compared == [
        ("implementation", "framework"),
        ("precision", "precision"),
        ("topology", "nodes and devices"),
        ("batch", "batch per device"),
        ("all", "everything of a workload"),
    ]
    groups = {tuple(cell[key] for key in data["common"]) for cell in data["cells"]}
    assert len(groups) == len(data["cells"])  # no line of a plot stands for two cells


def test_a_measure_says_whether_less_is_better_and_is_there_if_any_cell_has_it(tmp_path):
    made, data = explored(tmp_path)
    known = dict(made.measures)
    assert known["own"] == "throughput" and known["efficiency"] == "scaling efficiency"
    assert "energy" not in known
    assert data["measures"]["step_time"] == {"title": "step time", "unit": "ms", "lower": True}
    assert not data["measures"]["own"]["lower"]
    for cell in data["cells"]:
        assert ("per_device" in cell["values"]) == (cell["topology"] == "1n2d")


def test_a_cell_without_a_number_says_why(tmp_path):
    _, data = explored(tmp_path, fate=mxnet_fails)
    (failed,) = [cell for cell in data["cells"] if cell["status"]]
    assert failed["status"] == "out of memory" and failed["values"] == {}
    assert failed["facts"]["out of memory"].startswith("rank 0: no memory")


def test_no_text_ends_the_script_that_holds_it(tmp_path):
    made, data = explored(tmp_path, fate=lambda case, repetition: ("crashed", "</script><!--"))
    assert "<" not in made.json
    assert data["cells"][0]["facts"]["crashed"] == "</script><!--"
    inlined = scripts.inlined("const end = '</SCRIPT><!--' + (a < b);")
    assert inlined.text == "const end = '\\x3c/SCRIPT>\\x3c!--' + (a < b);"
