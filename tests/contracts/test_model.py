"""Every Model in the catalog, and one from another package, keeps the contract of Models."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from rlstudio.agents.rebuild import AGENTS, blank_agent, described, model_spec
from rlstudio.core.catalog import MODELS
from rlstudio.core.errors import BundleError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Spaces
from rlstudio.delivery.bundle import open_bundle
from rlstudio.delivery.export import export_agent
from rlstudio.delivery.spec import BundleOrigin
from rlstudio.experiment.analysis.replan import planning_agent
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.models.policies.q_values import QValue
from rlstudio.models.spec import ModelSpec
from rlstudio.testing import ModelContract
from support.experiments import tiny
from support.plugins import install_package, on_the_path

SEEN = ModelContract.observation
OWN = "relu-values"
PACKAGE = Path(__file__).parents[2] / "examples/my_parts"
CHOICE, PARTS, MOVES = Discrete(3, start=2), MultiDiscrete((3, 2)), Box((2,), "float32", (-2, 0), (1, 5))
MASKED = Dict((("action_mask", Box((3,), "uint8", (0,), (1,))), ("numbers", SEEN)))
WHOLE = Dict((*MASKED.items(), ("state", Box((2,), "float32", (-1,), (1,)))))
GSDE = {"exploration": "state_dependent"}


class Case(NamedTuple):
    variant: str
    action: Discrete | MultiDiscrete | Box
    network: dict[str, object] = {}
    settings: dict[str, object] = {}
    observation: Space = SEEN
    layered: bool = True  # whether NumPy acts with it
    valued: bool = True  # whether it tells a planner what is still to come

    @property
    def id(self) -> str:
        parts = (self.variant, type(self.action).__name__, *self.network.values(), *self.settings)
        return "_".join(map(str, (*parts, *(["masked"] if self.observation is MASKED else []))))


CASES = [
    Case("central-policy-value", CHOICE, {"critic": "central"}, observation=WHOLE, valued=False),
    Case("policy-only", CHOICE, valued=False),
    Case("policy-only", MOVES, GSDE, valued=False),
    Case("policy-value", PARTS, {"normalize_observations": True}),
    Case("policy-value", MOVES, {"activation": "gelu"}, layered=False),
    Case("policy-value", CHOICE, observation=MASKED),
    Case("recurrent-policy-value", CHOICE, {"memory": "gru", "memory_size": 5}),
    Case("recurrent-policy-value", MOVES, {"memory": "lstm", "memory_size": 5}),
    Case("q-value", CHOICE, {}, {"dueling": True}),
    Case("q-value", CHOICE, observation=MASKED),
    Case("quantile-value", CHOICE, {"activation": "relu"}, {"quantiles": 5}),
    Case("squashed-policy", MOVES, valued=False),
    Case("squashed-policy", MOVES, GSDE, valued=False),
    Case("deterministic-policy", MOVES, valued=False),
    Case(OWN, CHOICE, {}, {"width": 6}),
    Case(OWN, CHOICE, {}, {"width": 6}, MASKED),
]


class OurModelContract(ModelContract):
    """With what is known of those that are listed above."""

    layered: bool
    valued: bool

    def test_it_acts_in_numpy_and_has_a_value_as_listed(self) -> None:
        agent = self.make()
        assert (agent.acting == "numpy") == self.layered
        assert agent.model.policy_for_plan() is not None
        assert (agent.model.value_for_plan({}) is not None) == self.valued


def suite(case: Case) -> type:
    attributes: dict[str, Any] = {"part": case.variant, **case._asdict()}
    return type(f"TestModel_{case.id}", (OurModelContract,), attributes)


globals().update({f"TestModel_{case.id}": suite(case) for case in CASES})


@pytest.fixture(autouse=True)
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], None]]:
    """A package with the Model of `examples/my_parts` is installed; what it gives uninstalls it."""
    site = tmp_path_factory.mktemp("site")
    entries = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    install_package(site, "acme", "1.0", {"rlstudio.models": entries["rlstudio.models"]}, {})

    def uninstall() -> None:
        (site / "acme-1.0.dist-info/entry_points.txt").write_text("")
        MODELS.__dict__.pop("plugins", None)

    with on_the_path(PACKAGE), on_the_path(site):
        yield uninstall


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32)


def test_every_model_is_here() -> None:
    assert {case.variant for case in CASES} == set(MODELS.names())


# -- a Model from another package --------------------------------------------------------------------------------------


def acme_agent():
    spaces = Spaces(SEEN, Discrete(2))
    spec = ModelSpec(variant=OWN, network=NetworkConfig(), settings={"width": 5})
    return blank_agent(spaces, spec)


def test_a_model_of_another_package_ships(tmp_path: Path, acme: Callable[[], None]) -> None:
    agent = acme_agent()
    bundle = export_agent(
        agent,
        tmp_path / "bundle",
        model=model_spec(agent.model),
        formats=("bundle", "torchscript"),
        name="acme",
        algo="acme",
        origin=BundleOrigin(kind="run"),
        env=tiny("dqn").env,
        config_yaml="{}\n",
    )
    assert bundle.spec.model.settings == {"width": 5}
    assert np.array_equal(bundle.agent().act(rows(9)), agent.act(rows(9)))
    acme()
    with pytest.raises(BundleError, match=r"spec\.json: model\.variant: .*unknown model 'relu-values'.*install"):
        open_bundle(tmp_path / "bundle")


def test_a_model_of_another_package_plans_with_its_own_value() -> None:
    agent, cfg = acme_agent(), tiny("dqn")
    planner = planning_agent(agent, cfg, ["kind=guided", "horizon=3", "candidates=8", "iterations=1"])
    assert planner.score.value is not None
    weights = {name: part.numpy(force=True).astype(np.float64) for name, part in agent.model.state_dict().items()}
    hidden = np.maximum((rows(6) - 0.5).clip(-5, 5) @ weights["first.weight"].T + weights["first.bias"], 0)
    expected = (hidden @ weights["second.weight"].T + weights["second.bias"]).max(-1)
    found = planner.score.value(torch.from_numpy(rows(6)).view(2, 3, 4))
    np.testing.assert_allclose(found.numpy(force=True).reshape(-1), expected, rtol=1e-5, atol=1e-5)
    assert evaluate(planner, cfg.env, episodes=1, seed=0).summary.mean > 0


def test_what_cannot_be_built_again_says_why(acme: Callable[[], None]) -> None:
    class Wider(QValue):
        """Says that it is a q-value."""

    spaces = Spaces(SEEN, Discrete(2))
    with pytest.raises(Incompatible, match=r"a Wider cannot be built again .* q-value is that of QValue; give it"):
        model_spec(Wider(spaces, NetworkConfig(), Rng(0)))
    with pytest.raises(Incompatible, match="a Linear Model does not describe itself"):
        model_spec(torch.nn.Linear(1, 1))
    agent = acme_agent()
    acme()
    with pytest.raises(Incompatible, match=r"unknown model 'relu-values'.* an entry point of rlstudio\.models"):
        model_spec(agent.model)
    assert described(agent) is None


def test_settings_that_a_model_does_not_take_are_refused() -> None:
    spec = ModelSpec(variant="policy-only", network=NetworkConfig(), dueling=True)
    with pytest.raises(Incompatible, match=r"a policy-only Model is not built like this: .*'dueling'"):
        blank_agent(Spaces(SEEN, Discrete(2)), spec)


def test_a_subclass_is_not_described_as_the_class_it_extends() -> None:
    class Louder(PolicyOnly):
        """Acts otherwise."""

    spaces = Spaces(SEEN, Discrete(2))
    agent = AGENTS["policy"](Louder(spaces, NetworkConfig(), Rng(0)), spaces)
    assert described(agent) is None
