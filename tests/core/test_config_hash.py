"""The canonical form, its hash, and writing a Config as YAML that parses back."""

from typing import Any, ClassVar, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from rlstudio.core.config import Config, canonical, config_hash, parse, to_yaml
from rlstudio.core.parsing.yaml_file import read_text
from support.examples import examples


class Env(Config):
    id: str = "CartPole-v1"
    seed: int = 1
    kwargs: dict[str, Any] = {}


class Experiment(Config):
    not_hashed: ClassVar[tuple[str, ...]] = ("name", "env.seed")

    name: str = "n"
    lr: float = 3e-4
    steps: int = 100
    sizes: tuple[int, ...] = (64, 64)
    device: Literal["auto", "cpu"] = "auto"
    limit: float | None = None
    env: Env = Field(default_factory=Env)


CANONICAL = (
    '{"device":"auto","env":{"id":"CartPole-v1","kwargs":{}},"limit":null,"lr":0.0003,"sizes":[64,64],"steps":100}'
)


def test_golden_form_and_hash():
    assert canonical(Experiment()) == CANONICAL
    assert config_hash(Experiment()) == "2665ec972e0cd69707882945d976982ec32eb9a99bf6e05b34566c9aa74e9a81"


class LaterEnv(Env):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("params",)

    params: dict[str, float] = {}


class LaterExperiment(Experiment):
    env: LaterEnv = Field(default_factory=LaterEnv)


def test_a_field_that_came_later_leaves_older_hashes_as_they_were():
    assert config_hash(LaterExperiment()) == config_hash(Experiment())
    changed = LaterExperiment(env=LaterEnv(params={"gravity": 9.0}))
    assert config_hash(changed) != config_hash(Experiment())
    assert '"params":{"gravity":9.0}' in canonical(changed)


def test_the_way_it_is_written_does_not_matter():
    one = parse(Experiment, read_text("lr: 3e-4\nsteps: 1e2\nsizes: [64, 64.0]\nenv: {seed: 7}", "f"))
    two = parse(Experiment, read_text("env:\n  seed: 8\nname: other\nsteps: 100\nlr: 0.0003", "f"))
    assert config_hash(one) == config_hash(two) == config_hash(Experiment())


def test_zero_has_one_hash():
    assert Experiment(limit=-0.0) == Experiment(limit=0.0)
    assert config_hash(Experiment(limit=-0.0)) == config_hash(Experiment(limit=0.0))


def test_what_defines_the_result_changes_the_hash():
    variants = [
        Experiment(lr=1e-3),
        Experiment(steps=101),
        Experiment(sizes=(64,)),
        Experiment(device="cpu"),
        Experiment(limit=0.0),
        Experiment(env=Env(id="Acrobot-v1")),
        Experiment(env=Env(kwargs={"g": 10})),
        Experiment(env=Env(kwargs={"g": 10.0})),
    ]
    hashes = {config_hash(cfg) for cfg in [Experiment(), *variants]}
    assert len(hashes) == len(variants) + 1


numbers = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | numbers | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
experiments = st.builds(
    Experiment,
    name=st.text(max_size=20) | st.sampled_from(["010", "3e-4", "on", "null", "", "12:30:45"]),
    lr=numbers,
    steps=st.integers(-(10**30), 10**30),
    sizes=st.lists(st.integers(), max_size=5).map(tuple),
    limit=st.none() | numbers,
    env=st.builds(Env, kwargs=st.dictionaries(st.text(max_size=10), plain, max_size=3)),
)


@examples(150)
@given(experiments)
def test_yaml_parses_back_to_an_equal_config_with_the_same_hash(cfg):
    again = parse(Experiment, read_text(to_yaml(cfg), "f.yaml"))
    assert again == cfg
    assert config_hash(again) == config_hash(cfg)
