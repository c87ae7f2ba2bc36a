"""What the parameters of episodes are drawn from: closed forms, and independence of who asks for what."""

import json
import math
import re
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.envs.params.distributions import Choice, Constant, LogUniform, Normal, Uniform, distribution
from rlstudio.envs.params.draw import Component, Draw, constants, sample
from support.examples import examples

EVERY_KIND = {
    "gravity": Uniform(5.0, 15.0),
    "length": LogUniform(0.25, 4.0),
    "mass_cart": Normal(1.0, 0.3, 0.5, 2.0),
    "mass_pole": Choice((0.05, 0.1, 0.2), (1.0, 2.0, 1.0)),
    "force": Constant(10.0),
}
MIXED = Draw(
    3,
    (
        Component(1.0, EVERY_KIND, "easy"),
        Component(3.0, EVERY_KIND | {"gravity": Constant(20.0), "length": Normal(1.0, 0.1)}, "hard"),
    ),
    once=("mass_cart",),
)
SEEDS = st.integers(0, 2**32 - 1)
ADDRESSES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 5000)), min_size=1, max_size=12)


def grid(envs, episodes):
    return (axis.ravel() for axis in np.meshgrid(np.arange(envs), np.arange(episodes), indexing="ij"))


@examples(20)
@given(SEEDS, ADDRESSES)
def test_a_number_depends_on_its_address_only(seed, addresses):
    """However many are asked for together and in whatever order."""
    envs, episodes = (np.array(column) for column in zip(*addresses, strict=True))
    components, values = sample(MIXED, seed, envs, episodes)
    for row, (env, episode) in enumerate(addresses):
        component, alone = sample(MIXED, seed, np.array([env]), np.array([episode]))
        assert component[0] == components[row]
        assert {name: value[0] for name, value in alone.items()} == {name: v[row] for name, v in values.items()}


@examples(20)
@given(SEEDS, st.permutations(list(EVERY_KIND)))
def test_other_parameters_and_their_order_change_nothing(seed, order):
    envs, episodes = grid(3, 3)
    whole = sample(Draw(0, (Component(1.0, EVERY_KIND),)), seed, envs, episodes)[1]
    part = sample(Draw(0, (Component(2.0, {name: EVERY_KIND[name] for name in order[:3]}),)), seed, envs, episodes)[1]
    assert list(part) == order[:3]
    assert all(np.array_equal(part[name], whole[name]) for name in part)


def test_seed_version_env_episode_and_name_are_all_part_of_the_address():
    both = {"a": Uniform(0.0, 1.0), "b": Uniform(0.0, 1.0)}
    numbers = [
        sample(Draw(version, (Component(1.0, both),)), seed, *grid(8, 8))[1][name].tolist()
        for version in (0, 1)
        for seed in (0, 1)
        for name in both
    ]
    assert len(set(np.concatenate(numbers).tolist())) == 8 * 64


def test_a_number_drawn_once_is_the_same_in_all_episodes_and_versions():
    first = sample(MIXED, 7, *grid(6, 5))[1]["mass_cart"].reshape(6, 5)
    later = sample(Draw(9, MIXED.components, MIXED.once), 7, *grid(6, 1))[1]["mass_cart"]
    assert (first == first[:, :1]).all()
    assert np.array_equal(later, first[:, 0])
    assert len(set(later.tolist())) == 6


CDF = {
    "uniform": (Uniform(5.0, 15.0), lambda x: (x - 5) / 10),
    "log_uniform": (LogUniform(0.25, 4.0), lambda x: math.log(x / 0.25) / math.log(16)),
    "normal": (Normal(1.0, 0.3), NormalDist(1.0, 0.3).cdf),
    "bounded": (
        Normal(1.0, 0.5, 0.5, 1.5),
        lambda x: (NormalDist(1.0, 0.5).cdf(x) - NormalDist().cdf(-1)) / (1 - 2 * NormalDist().cdf(-1)),
    ),
}


@pytest.mark.parametrize("kind", CDF)
def test_values_invert_the_distribution_function(kind):
    drawn_from, cdf = CDF[kind]
    uniform = np.linspace(0.001, 0.999, 97)
    assert [cdf(x) for x in drawn_from.values(uniform).tolist()] == pytest.approx(uniform.tolist(), abs=1e-9)
    low, high = drawn_from.values(np.array([0.0, 1 - 2.0**-53])).tolist()
    assert math.isfinite(low)
    assert math.isfinite(high)
    if kind != "normal":
        assert [cdf(low), cdf(high)] == pytest.approx([0.0, 1.0], abs=1e-9)


@pytest.mark.parametrize("kind", CDF)
def test_drawn_values_follow_the_distribution(kind):
    """Kolmogorov-Smirnov of 4,000 fixed numbers: 1.63 / sqrt(n) is the bound of one such seed in a hundred."""
    drawn_from, cdf = CDF[kind]
    values = sample(Draw(0, (Component(1.0, {"x": drawn_from}),)), 5, *grid(40, 100))[1]["x"]
    shares = np.array([cdf(x) for x in np.sort(values).tolist()])
    places = np.arange(len(shares)) / len(shares)
    assert max(abs(shares - places).max(), abs(shares - places - 1 / len(shares)).max()) < 1.63 / math.sqrt(4000)


def test_components_and_options_come_in_proportion_to_their_weights():
    draw = Draw(0, tuple(Component(w, {"x": Choice((1.0, 2.0), (0.0, 5.0))}) for w in (1.0, 0.0, 3.0)))
    components, values = sample(draw, 11, *grid(50, 80))
    counts = np.bincount(components, minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 1000) < 3 * math.sqrt(4000 * 0.25 * 0.75)
    assert set(values["x"].tolist()) == {2.0}
    plain = Choice((3.0, 1.0, 2.0)).values(np.array([0.0, 0.34, 0.67, 1 - 2.0**-53]))
    assert plain.tolist() == [3.0, 1.0, 2.0, 2.0]


def test_values_come_from_the_component_that_was_taken():
    components, values = sample(MIXED, 2, *grid(10, 40))
    assert set(components.tolist()) == {0, 1}
    assert (values["gravity"][components == 1] == 20.0).all()
    assert (values["gravity"][components == 0] < 15.0).all()


def test_constants_give_themselves():
    _, values = sample(constants({"gravity": 9.8, "length": 0.1 + 0.2}), 0, *grid(2, 2))
    assert {name: value.tolist() for name, value in values.items()} == {"gravity": [9.8] * 4, "length": [0.1 + 0.2] * 4}


def test_a_draw_travels_as_json():
    again = Draw.from_json(json.loads(json.dumps(MIXED.to_json())))
    assert again == MIXED


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"uniform": [2, 1]}, "the range 2 to 1 is not in order; give the lower number first"),
        ({"uniform": [1]}, "uniform takes two numbers, got 1"),
        ({"uniform": 3}, "uniform takes a list of numbers"),
        ({"uniform": [0, 1], "normal": [0, 1]}, "a parameter is a number, {uniform: [a, b]}"),
        ({"unifrom": [0, 1]}, "a parameter is a number, {uniform: [a, b]}"),
        ({"uniform": [0, 1], "low": 0}, "uniform has no option 'low'; leave it out"),
        ({"normal": [0, 1], "lowest": 0}, "normal has no option 'lowest'; it has low and high"),
        ({"normal": [0, -1]}, "normal needs a deviation of at least 0, got -1"),
        ({"normal": [0, 1], "low": 60}, "normal 0, 1 never lies between 60 and inf"),
        ({"normal": [0, 1], "low": 2, "high": 1}, "the bounds 2 and 1 of normal are not in order"),
        ({"normal": [0, 0], "low": 1}, "normal has no deviation, and its mean 0 is not within its bounds"),
        ({"log_uniform": [0, 1]}, "log_uniform needs numbers above 0, got 0"),
        ({"choice": []}, "choice needs at least one number"),
        ({"choice": [1, 2], "weights": [1]}, "choice has 2 numbers and 1 weights"),
        ({"choice": [1, 2], "weights": [0, 0]}, "weights are numbers of at least 0, one of them above 0"),
        ({"choice": [1, "a"]}, "'a' is not a number"),
        (float("nan"), "nan is not a finite number"),
        (True, "True is not a number"),
    ],
)
def test_what_is_no_distribution_is_refused_with_its_reason(value, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        distribution(value)


def test_components_of_a_draw_have_the_same_parameters():
    with pytest.raises(ValueError, match="all components of a Draw have the same parameters"):
        Draw(0, (Component(1.0, {"a": Constant(1.0)}), Component(1.0, {"b": Constant(1.0)}, "second")))
    with pytest.raises(ValueError, match="at least one component"):
        Draw(0, ())
