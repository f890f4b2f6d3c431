"""A config is answered with what stands there, not with what YAML makes of it."""

import pytest
import yaml
from conftest import SMALL_ROUND

from dlperf.contract.problems import ConfigError
from dlperf.contract.written import take_arguments
from dlperf.plan import load

TEXT = yaml.safe_dump(SMALL_ROUND)


def told(tmp_path, old: str, new: str) -> str:
    """What is said of SMALL_ROUND with a change in its text; "" if nothing is wrong."""
    assert old in TEXT
    path = tmp_path / "round.yaml"
    path.write_text(TEXT.replace(old, new))
    try:
        load(path, "round.yaml")
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("no", "false"),
        ("On", "true"),
        ("12:30", "the number 750"),
        ("007", "the number 7"),
        ("2026-11-25", "the date 2026-11-25"),
        ("12", "the number 12"),
        ("~", "nothing"),
    ],
)
def test_a_word_that_yaml_reads_otherwise_is_quoted_and_needs_quotes(tmp_path, written, read):
    (message,) = told(tmp_path, "round: small", f"round: {written}").splitlines()
    assert message.startswith(f"round.yaml: round: {written} is not a word of letters")
    assert message.endswith(
        f"YAML reads {written} as {read}; a word needs quotes here, '{written}'"
    )
    fine = told(tmp_path, "round: small", f"round: '{written}'")
    assert ("is not a word" in fine) == (written in ("12:30", "~"))  # no names for a folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("repetitions: 2", "repetitions: 010", "repetitions: 010 begins with 0"),
        ("repetitions: 2", "repetitions: 02", "write 2"),
        ("repetitions: 2", "repetitions: 1:30", "repetitions: 1:30 is 90 to YAML"),
        ("  - 2\n", "  - 012\n", "batch_sizes.fp32[0]: 012 begins with 0"),
        ("repetitions: 2", "repetitions: yes", "repetitions: yes must be of the type integer"),
        ("device: cpu", "device: off", "device: off is not a device"),
        ("- pytorch", "- no\n- no", "frameworks[1]: no stands twice in this list"),
        ("repetitions: 2", "no: 2", "a key that YAML reads as false"),
        ("round: small", "round: &name 12\nretry: [*name]", "retry[0]: 12 is not a status"),
    ],
)
def test_a_value_is_told_as_it_was_written(tmp_path, old, new, message):
    assert message in told(tmp_path, old, new)


@pytest.mark.parametrize("number", ["2", "0x2", "1_0", "+2", "0b11"])
def test_a_number_that_all_read_alike_is_one(tmp_path, number):
    assert told(tmp_path, "repetitions: 2", f"repetitions: {number}") == ""


def given(*arguments: str) -> dict:
    """SMALL_ROUND after `--config ARGUMENTS`, as Snakemake takes them, and then we."""
    from snakemake.cli import parse_config
    from snakemake.utils import update_config

    config = yaml.safe_load(TEXT)
    update_config(config, parse_config(list(arguments)))
    written = take_arguments(config, arguments)
    return load(config, "round.yaml", written).model_dump()


def test_a_section_on_the_command_line_is_as_in_a_file():
    config = given("steps={warmup: 3, measured: 5}", "retry=[oom]", "round=no")
    assert (config["steps"], config["retry"]) == ({"warmup": 3, "measured": 5}, ["oom"])
    assert config["round"] == "no", "Snakemake takes it as a word"
    section = "workloads={resnet50: {image_size: [64, 96], compilers: [off]}}"
    assert given(section)["workloads"]["resnet50"]["image_size"] == [64, 96]
    assert given(section)["workloads"]["resnet50"]["batch_sizes"] == {"fp32": [2]}, "of the file"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("seed=010", "seed: 010 (--config seed) begins with 0"),
        ("steps={warmup: 02}", "steps.warmup: 02 (--config steps) begins with 0"),
        ("steps={warmup: no}", "steps.warmup: no (--config steps) must be of the type integer"),
        ("seed=1e3", "seed: 1e3 (--config seed) must be of the type integer"),
        ("round=12", "a word needs quotes here, '\"12\"' to a shell"),
        ("round=12:30", "round: '12:30' is not a word"),
        ("retry=[no]", "retry[0]: no (--config retry) is not a status"),
    ],
)
def test_a_wrong_word_of_the_command_line_is_told_as_it_was_written(argument, message):
    with pytest.raises(ConfigError) as error:
        given(argument)
    assert message in str(error.value)
