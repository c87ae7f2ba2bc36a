"""What every Model promises: what it says of itself is what it does, for the acting kernels, for export, for building
it again and for planners."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from rlstudio.agents.agent import Agent
from rlstudio.agents.kernels import TorchKernel, acting_kernel, numpy_layers, tensors
from rlstudio.agents.memory_kernels import TorchMemoryKernel, memory_kernel
from rlstudio.agents.rebuild import AGENTS, blank_agent, described, model_spec, rebuilt
from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.catalog import MODELS
from rlstudio.core.contracts import Array, Model
from rlstudio.core.model.layers import Observations
from rlstudio.core.spaces import Box, Discrete, Space, Spaces
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.graphs import module_run
from rlstudio.models.policies.distributions import mode
from rlstudio.models.spec import ModelSpec, read_model_fields
from rlstudio.testing.agents import observed


class ModelContract:
    """The contract of a Model as tests: extend this class and name the part."""

    part: ClassVar[str]
    """The variant: its name in the catalog."""

    observation: ClassVar[Space] = Box((4,), "float32", (-np.inf,), (np.inf,))
    """What the environment shows."""

    action: ClassVar[Space] = Discrete(3, start=2)
    """What it takes."""

    network: ClassVar[Mapping[str, Any]] = {}
    """Settings of the network section."""

    settings: ClassVar[Mapping[str, Any]] = {}
    """Arguments of the class."""

    def __init_subclass__(cls) -> None:
        """A planner starts from numbers alone: what is shown otherwise is not planned from."""
        if not isinstance(cls.observation, Box):
            cls.test_a_planner_gets_its_policy_and_its_value_for_any_leading_dimensions = None  # type: ignore[method-assign, assignment]

    def make(self) -> Agent:
        """The agent that acts with the Model, whose weights are nowhere zero, nor its statistics where it has some."""
        stated = dict(self.settings) if self.part in MODELS.builtin else {"settings": dict(self.settings)}
        network = {"hidden_sizes": [8, 6], **self.network}
        spec = read_model_fields({"variant": self.part, "network": network, **stated})
        agent = blank_agent(Spaces(self.observation, self.action), spec)
        generator = torch.Generator().manual_seed(1)
        for parameter in agent.model.parameters():
            parameter.data.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        if spec.network.normalize_observations and hasattr(agent.model, "encoder"):
            agent.model.encoder.normalizer.update(torch.from_numpy(self.rows(50, 9) * 3 + 1))
        return agent

    def rows(self, count: int, seed: int = 0) -> Any:
        """Observations; about half of the choices are forbidden where they say what is."""
        rows = observed(self.observation, np.random.default_rng(seed), count)
        if isinstance(rows, dict) and ACTION_MASK in rows:
            rows[ACTION_MASK] %= 2
        return rows

    def test_it_meets_the_contract(self) -> None:
        model = self.make().model
        assert isinstance(model, Model)
        assert type(model) is MODELS.load(self.part)
        assert model.variant == self.part
        assert set(model.reads) <= {"observations", "carry", "resets"}
        assert ("carry" in model.reads) == bool(model.carry_shapes())
        assert model.outputs(as_tensors(self.rows(2)))[0].shape == (2, model.action_rule().outputs)

    def test_both_kernels_act_alike(self) -> None:
        model = self.make().model
        lightest = "numpy" if numpy_layers(model) else "torch"
        if not model.carry_shapes():
            kernel = acting_kernel(model)
            assert kernel.name == lightest
            np.testing.assert_allclose(kernel(self.rows(5)), TorchKernel(model)(self.rows(5)), atol=1e-5)
            return
        light, full = memory_kernel(model), TorchMemoryKernel(model)
        assert light.name == lightest
        one, other = light(self.rows(5), None), full(self.rows(5), None)
        one, other = light(self.rows(5, 1), one[1]), full(self.rows(5, 1), other[1])
        np.testing.assert_allclose(one[0], other[0], atol=1e-5)
        for part in model.carry_shapes():
            np.testing.assert_allclose(one[1][part], other[1][part], atol=1e-5)

    def test_the_kernel_sees_every_change_of_the_weights(self) -> None:
        agent = self.make()
        before = agent.deciding(self.rows(3)).copy()
        for parameter in agent.model.parameters():
            parameter.data.mul_(1.5)
        assert not np.allclose(agent.deciding(self.rows(3)), before)

    def test_it_is_built_again_from_what_it_says(self) -> None:
        agent = self.make()
        said = agent.model.spec()
        assert json.loads(json.dumps(said)) == said
        spec = model_spec(agent.model)
        assert ModelSpec.model_validate_json(spec.model_dump_json()) == spec
        assert type(agent) is AGENTS[agent.model.action_rule().kind]
        assert described(agent) == spec
        weights = {name: part.numpy(force=True) for name, part in agent.model.state_dict().items()}
        again = rebuilt(agent.spaces, spec, weights)
        assert again.model.spec() == said
        assert np.array_equal(again.step(self.rows(7)).actions, agent.step(self.rows(7)).actions)

    def test_its_plain_form_does_what_the_agent_does(self) -> None:
        agent, rows = self.make(), self.rows(7)
        policy = Deployed(agent)
        shapes: dict[str, tuple[int, ...]] = agent.model.carry_shapes()
        carry = {part: np.zeros((7, *shape), np.float32) for part, shape in shapes.items()}
        given = {port.name: rows[port.part] if port.part else rows for port in policy.observations}
        results = module_run(policy, policy)({**given, **{f"carry_{part}": held for part, held in carry.items()}})
        acted = agent.step(rows, carry or None)
        np.testing.assert_allclose(results["outputs"], agent.deciding(rows, carry or None), atol=1e-5)
        start = np.asarray(getattr(agent.spaces.action, "start", 0) or 0)
        np.testing.assert_allclose(results["actions"], acted.actions + start, atol=1e-5)
        after = acted.carry or {}
        for part in carry:
            np.testing.assert_allclose(results[f"carry_{part}_after"], after[part], atol=1e-5)

    def test_a_planner_gets_its_policy_and_its_value_for_any_leading_dimensions(self) -> None:
        agent = self.make()
        assert isinstance(self.observation, Box)
        rows = torch.from_numpy(self.rows(6)).view(2, 3, *self.observation.shape)
        policy, value = agent.model.policy_for_plan(), agent.model.value_for_plan({})
        if policy is not None:
            done = mode(policy(rows)).flatten(0, 1)
            if isinstance(self.action, Box):
                low, high = (torch.tensor(side) for side in self.action.bounds())
                done = low + (done.clamp(-1, 1) + 1) * (high - low) / 2
            torch.testing.assert_close(done, torch.as_tensor(agent.step(self.rows(6)).actions))
        if value is not None:
            assert value(rows).shape == (2, 3)


def as_tensors(rows: Array) -> Observations:
    return tensors(rows, torch.device("cpu"))
