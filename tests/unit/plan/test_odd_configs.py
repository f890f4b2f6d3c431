"""A round's config with one odd value in it, wherever that stands: one message, or a round."""

import copy
import datetime

import yaml
from conftest import ROOT
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dlperf.plan import ConfigError, dump, expand, load, order

ODD = (
    *(None, True, -1, 0, 10**30, 2**31, 0.5, float("inf"), float("nan"), "", "x" * 5000, "a\0b"),
    *("README.md", b"x", {"x"}, datetime.date(2020, 1, 1), [], {}, [[]], [{}], {1: 2}, {None: 1}),
    *({(1, 2): 3}, ["fp32", 1], [True, 1], [1, 1.0]),
)


def places(value, at=()):
    """The keys and indices of everything inside a config."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield (*at, key)
        if isinstance(each, dict | list):
            yield from places(each, (*at, key))


def changed(value, place, to):
    """A copy in which `to` stands at that place."""
    if not place:
        return to
    found = copy.copy(value)
    found[place[0]] = changed(value[place[0]], place[1:], to)
    return found


@examples(200)
@given(st.data())
def test_one_odd_value_in_a_round_is_an_error_or_a_round_that_can_be_planned(data):
    whole = yaml.safe_load((ROOT / "config/rounds/laptop-full.yaml").read_text())
    whole |= {"frameworks": ["pytorch", "jax"], "beside": ["dlperf-v1"], "retry": ["crashed"]}
    whole |= {"peaks": {"a GPU": {"fp32": 1.0}}, "cluster": {"launcher": "srun {nodes}"}}
    place = data.draw(st.sampled_from(list(places(whole))))
    try:
        config = load(changed(whole, place, data.draw(st.sampled_from(ODD))), "mine.yaml")
    except ConfigError as error:
        assert all(line.startswith("mine.yaml: ") for line in str(error).splitlines())
    else:
        again = load(yaml.safe_load(dump(config)))
        assert again.model_copy(update={"cluster": config.cluster}) == config
        assert len(order(config)) == len(expand(config)) * config.repetitions
