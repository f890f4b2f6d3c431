"""Certificates that come with the code are taken where all hashes agree, and only there."""

import re

import pytest
import released
import yaml
from conftest import snakemake, the_first

JAX = "certificates/resnet50/jax/cpu-fp32-xla-1.json"


@pytest.fixture
def fresh(checkout):
    """A copy of the repository without certificates of its own."""
    (checkout / "results/certificates").unlink()
    released.as_of_this_code(checkout / "certificates")
    return checkout


def rules(checkout, *more: str) -> set[str]:
    """The rules that would run to make a certificate of JAX's."""
    dry = snakemake("-n", *more, "--", f"results/{JAX}", cwd=checkout)
    found = re.findall(r"^ *(\w[\w ]*?) +\d+ *$", dry.stdout + dry.stderr, re.MULTILINE)
    return {name.replace(" ", "_") for name in found}


def test_one_of_this_very_code_is_copied(fresh):
    assert rules(fresh) >= {"released_certificate"}
    snakemake("--", f"results/{JAX}", cwd=fresh)
    assert (fresh / "results" / JAX).read_bytes() == (fresh / JAX).read_bytes()
    assert "released_certificate" not in rules(fresh)
    assert rules(fresh, "--config", "certificates=remake") >= {"certificate"}


@pytest.mark.parametrize(
    "path",
    the_first(
        1, ["loaders/images.py", "frameworks/jax/training.py", "workloads/resnet50/reference.py"]
    ),
)
def test_one_of_other_code_is_not(fresh, path):
    with open(fresh / "scripts/dlperf" / path, "a") as stream:
        stream.write("ANOTHER_VERSION = 1\n")
    assert "certificate" in rules(fresh)


def test_a_comment_makes_none_stale(fresh):
    snakemake("--", f"results/{JAX}", cwd=fresh)
    with open(fresh / "scripts/dlperf/frameworks/jax/training.py", "a") as stream:
        stream.write("# another word\n")
    assert not rules(fresh) & {"certificate", "released_certificate"}
    (fresh / "results" / JAX).unlink()
    assert "released_certificate" in rules(fresh)


def test_the_plan_counts_what_the_workflow_then_takes_and_makes(fresh):
    with open(fresh / "scripts/dlperf/frameworks/jax/training.py", "a") as stream:
        stream.write("ANOTHER_VERSION = 1\n")
    said = snakemake("plan", cwd=fresh).stdout
    dry = snakemake("-n", "certificates", cwd=fresh)
    jobs = dict(
        re.findall(
            r"^ *((?:released )?certificate) +(\d+) *$", dry.stdout + dry.stderr, re.MULTILINE
        )
    )
    assert jobs == {"released certificate": "14", "certificate": "2"}
    assert "Certificates of equal work: 16, 14 taken from certificates/, 2 to make" in said


@pytest.mark.parametrize(
    "old, new, said",
    the_first(
        1,
        [
            ('"measured": 0,', '"measured": 1,', "tier shapes: passed is true, but measured, 1"),
            ('"float64-loss"', '"float64-lost"', "float64-lost: is no tier of this certificate"),
            ('"passed": true', '"passed": true, "passed": true', 'the key "passed" stands twice'),
        ],
    ),
)
def test_an_edited_one_is_refused_and_not_made_anew(fresh, old, new, said):
    path = fresh / JAX
    content = path.read_text(encoding="utf-8")
    path.write_text(content.replace(old, new, 1), encoding="utf-8")
    done = snakemake("-n", "--", f"results/{JAX}", cwd=fresh, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == 1 and "most recent call last" not in printed
    assert f"{JAX}: " in printed and said in printed and f"git checkout -- {JAX}" in printed


def test_one_of_another_lock_is_not(fresh):
    with open(fresh / "envs/jax.cpu.lock.txt", "a") as stream:
        stream.write("# another version\n")
    assert "certificate" in rules(fresh)


def test_one_of_a_lock_that_is_not_applied_is_not(fresh):
    """The records would have no lock, and beside them it would be stale."""
    config = fresh / "config/config.yaml"
    environments = {"interpreters": {"jax": "/opt/jax/bin/python3"}}
    config.write_text(config.read_text() + yaml.safe_dump({"environments": environments}))
    assert "certificate" in rules(fresh)


def test_another_word_than_remake_is_a_mistake(fresh):
    done = snakemake("-n", "--config", "certificates=remkae", cwd=fresh, check=False)
    assert done.returncode == 1
    assert "certificates=remkae: allowed are released and remake" in done.stdout + done.stderr


def test_the_same_change_elsewhere_leaves_it_valid(fresh):
    with open(fresh / "scripts/dlperf/certify/judge.py", "a") as stream:
        stream.write("ANOTHER_VERSION = 1\n")
    assert "released_certificate" in rules(fresh)
