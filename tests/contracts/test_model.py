"""The contract of Models, over all in the catalog and one from another package: what a Model says of itself is what it
does, for the acting kernels, for export, for building it again and for planners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from rlstudio.agents.kernels import TorchKernel, acting_kernel
from rlstudio.agents.memory_kernels import TorchMemoryKernel, memory_kernel
from rlstudio.agents.rebuild import AGENTS, blank_agent, described, model_spec, rebuilt
from rlstudio.core.catalog import MODELS
from rlstudio.core.contracts import Model
from rlstudio.core.errors import BundleError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Spaces
from rlstudio.delivery.bundle import open_bundle
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.export import export_agent
from rlstudio.delivery.graphs import module_run
from rlstudio.delivery.spec import BundleOrigin
from rlstudio.experiment.analysis.replan import planning_agent
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import mode
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.models.policies.q_values import QValue
from rlstudio.models.spec import ModelSpec, read_model_fields
from support.experiments import tiny

SEEN = Box((4,), "float32", (-np.inf,), (np.inf,))
OWN = "relu-values"
EXAMPLES = Path(__file__).parents[2] / "examples"
CHOICE, PARTS, MOVES = Discrete(3, start=2), MultiDiscrete((3, 2)), Box((2,), "float32", (-2, 0), (1, 5))


class Case(NamedTuple):
    variant: str
    action: Discrete | MultiDiscrete | Box
    network: dict[str, object] = {}
    settings: dict[str, object] = {}

    @property
    def id(self) -> str:
        return "-".join([self.variant, type(self.action).__name__, *map(str, (*self.network.values(), *self.settings))])


GSDE = {"exploration": "state_dependent"}
CASES = [
    Case("policy-only", CHOICE),
    Case("policy-only", MOVES, GSDE),
    Case("policy-value", PARTS, {"normalize_observations": True}),
    Case("policy-value", MOVES, {"activation": "gelu"}),
    Case("recurrent-policy-value", CHOICE, {"memory": "gru", "memory_size": 5}),
    Case("recurrent-policy-value", MOVES, {"memory": "lstm", "memory_size": 5}),
    Case("q-value", CHOICE, {}, {"dueling": True}),
    Case("quantile-value", CHOICE, {"activation": "relu"}, {"quantiles": 5}),
    Case("squashed-policy", MOVES),
    Case("squashed-policy", MOVES, GSDE),
    Case("deterministic-policy", MOVES),
    Case(OWN, CHOICE, {}, {"width": 6}),
]


@pytest.fixture(autouse=True)
def acme(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A package with the Model of `examples/my_model.py` is installed; what it gives uninstalls it."""
    site = tmp_path_factory.mktemp("site")
    info = site / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[rlstudio.models]\n{OWN} = my_model:ReluValues\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def uninstall() -> None:
        (info / "entry_points.txt").write_text("")
        MODELS.__dict__.pop("plugins", None)

    MODELS.__dict__.pop("plugins", None)
    yield uninstall
    MODELS.__dict__.pop("plugins", None)


def built(case: Case) -> tuple[Model, Spaces]:
    """With weights that are nowhere zero, and statistics where it has some."""
    spaces = Spaces(SEEN, case.action)
    network = {"hidden_sizes": [8, 6], **case.network}
    spec = read_model_fields({"variant": case.variant, "network": network, **stated(case)})
    model = blank_agent(spaces, spec).model
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    if spec.network.normalize_observations:
        model.encoder.normalizer.update(torch.from_numpy(rows(50, 9) * 3 + 1))
    return model, spaces


def stated(case: Case) -> dict[str, object]:
    return {"settings": case.settings} if case.variant == OWN else dict(case.settings)


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32)


every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def test_every_model_is_here() -> None:
    assert {case.variant for case in CASES} == set(MODELS.names())


@every
def test_it_meets_the_contract(case: Case) -> None:
    model, _ = built(case)
    assert isinstance(model, Model)
    assert type(model) is MODELS.load(model.variant)
    assert set(model.reads) <= {"observations", "carry", "resets"}
    assert ("carry" in model.reads) == bool(model.carry_shapes())
    assert model.outputs(torch.from_numpy(rows(2)))[0].shape == (2, model.action_rule().outputs)


@every
def test_both_kernels_act_alike(case: Case) -> None:
    model, _ = built(case)
    layers = model.layers()
    assert layers is not None
    if not model.carry_shapes():
        kernel = acting_kernel(model)
        assert kernel.name == ("torch" if layers.activation == "gelu" else "numpy")
        np.testing.assert_allclose(kernel(rows(5)), TorchKernel(model)(rows(5)), atol=1e-5)
        return
    light, full = memory_kernel(model), TorchMemoryKernel(model)
    assert light.name == "numpy"
    one, other = light(rows(5), None), full(rows(5), None)
    one, other = light(rows(5, 1), one[1]), full(rows(5, 1), other[1])
    np.testing.assert_allclose(one[0], other[0], atol=1e-5)
    for part in model.carry_shapes():
        np.testing.assert_allclose(one[1][part], other[1][part], atol=1e-5)


@every
def test_the_kernel_sees_every_change_of_the_weights(case: Case) -> None:
    model, spaces = built(case)
    agent = AGENTS[model.action_rule().kind](model, spaces)
    before = agent.deciding(rows(3)).copy()
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    assert not np.allclose(agent.deciding(rows(3)), before)


@every
def test_it_is_built_again_from_what_it_says(case: Case) -> None:
    model, spaces = built(case)
    said = model.spec()
    assert json.loads(json.dumps(said)) == said
    spec = model_spec(model)
    assert ModelSpec.model_validate_json(spec.model_dump_json()) == spec
    agent = AGENTS[model.action_rule().kind](model, spaces)
    assert described(agent) == spec
    again = rebuilt(spaces, spec, {name: part.numpy(force=True) for name, part in model.state_dict().items()})
    assert type(again) is type(agent)
    assert again.model.spec() == said
    assert np.array_equal(again.step(rows(7)).actions, agent.step(rows(7)).actions)


@every
def test_its_plain_form_does_what_the_agent_does(case: Case) -> None:
    model, spaces = built(case)
    agent = AGENTS[model.action_rule().kind](model, spaces)
    policy = Deployed(agent)
    carry = {part: np.zeros((7, *shape), np.float32) for part, shape in model.carry_shapes().items()}
    given = {"observations": rows(7), **{f"carry_{part}": held for part, held in carry.items()}}
    results = module_run(policy, policy)(given)
    acted = agent.step(rows(7), carry or None)
    np.testing.assert_allclose(results["outputs"], agent.deciding(rows(7), carry or None), atol=1e-5)
    start = np.asarray(getattr(spaces.action, "start", 0) or 0)
    np.testing.assert_allclose(results["actions"], acted.actions + start, atol=1e-5)
    for part in carry:
        np.testing.assert_allclose(results[f"carry_{part}_after"], acted.carry[part], atol=1e-5)


@every
def test_a_planner_gets_its_policy_and_its_value_for_any_leading_dimensions(case: Case) -> None:
    model, spaces = built(case)
    agent, observed = AGENTS[model.action_rule().kind](model, spaces), torch.from_numpy(rows(6)).view(2, 3, 4)
    policy, value = model.policy_for_plan(), model.value_for_plan({})
    assert policy is not None
    done = mode(policy(observed)).flatten(0, 1)
    if isinstance(spaces.action, Box):
        low, high = (torch.tensor(side) for side in spaces.action.bounds())
        done = low + (done.clamp(-1, 1) + 1) * (high - low) / 2
    torch.testing.assert_close(done, torch.as_tensor(agent.step(rows(6)).actions))
    assert (value is None) == (case.variant in ("policy-only", "squashed-policy", "deterministic-policy"))
    if value is not None:
        assert value(observed).shape == (2, 3)


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
