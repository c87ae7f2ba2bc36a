"""skrl as its examples show it: a wrapped Gymnasium environment, models by mixins, `SequentialTrainer`.

Tracking and checkpoints stay at their defaults ("auto": 100 and 10 times over the run) in a temporary folder.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any

import gymnasium
import torch
from measure import Done, Job, Window, answer, job
from skrl.agents.torch import Agent
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import Wrapper, wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

TIMESTEPS = 1_000_000
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


def network(spec: Job, inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in spec["hidden_sizes"]:
        layers += [nn.Linear(inputs, size), ACTIVATIONS[spec["activation"]]()]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class Policy(CategoricalMixin, Model):
    def __init__(self, spec: Job, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = network(spec, self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


class Values(DeterministicMixin, Model):
    """State values for PPO (one output), action values for DQN (one for each action)."""

    def __init__(self, spec: Job, spaces: dict[str, Any], outputs: int) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(spec, self.num_observations, outputs)

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


def timed(kind: type[Agent], window: Window, every: int, num_envs: int) -> type[Agent]:
    """The agent with a mark after each `every` steps; `post_interaction` is where skrl updates."""

    class Timed(kind):  # type: ignore[valid-type, misc]
        def post_interaction(self, *, timestep: int, timesteps: int) -> None:
            super().post_interaction(timestep=timestep, timesteps=timesteps)
            if (timestep + 1) % every == 0 and window.mark((timestep + 1) * num_envs):
                raise Done

    return Timed


def make_env(spec: Job) -> Wrapper:
    if spec["num_envs"] == 1:
        return wrap_env(gymnasium.make(spec["env_id"]))
    mode = {"sync": "sync", "vector": "vector_entry_point"}[spec["vectorization"]]
    return wrap_env(gymnasium.make_vec(spec["env_id"], spec["num_envs"], vectorization_mode=mode))


def ppo(spec: Job, env: Wrapper, window: Window, experiment: dict[str, Any]) -> Agent:
    cfg = PPO_CFG(
        rollouts=spec["rollout_steps"],
        learning_epochs=spec["passes"],
        mini_batches=spec["rollout_steps"] * spec["num_envs"] // spec["batch_size"],
        discount_factor=spec["gamma"],
        gae_lambda=spec["gae_lambda"],
        learning_rate=spec["lr"],
        grad_norm_clip=spec["max_grad_norm"],
        ratio_clip=spec["clip"],
        value_clip=0.0,
        entropy_loss_scale=spec["entropy_coef"],
        value_loss_scale=spec["value_coef"],
    )
    spaces = spaces_of(env)
    models = {"policy": Policy(spec, spaces), "value": Values(spec, spaces, 1)}
    memory = RandomMemory(memory_size=spec["rollout_steps"], num_envs=env.num_envs)
    return build(timed(PPO, window, spec["rollout_steps"], spec["num_envs"]), models, memory, env, cfg, experiment)


def dqn(spec: Job, env: Wrapper, window: Window, experiment: dict[str, Any]) -> Agent:
    cfg = DQN_CFG(
        batch_size=spec["batch_size"],
        discount_factor=spec["gamma"],
        polyak=1.0,
        learning_rate=spec["lr"],
        learning_starts=spec["learning_starts"],
        update_interval=spec["train_every"],
        target_update_interval=spec["target_every_steps"] // spec["train_every"],
        exploration_scheduler=lambda timestep, timesteps: spec["epsilon"],
    )
    spaces = spaces_of(env)
    names = ("q_network", "target_q_network")
    models = {name: Values(spec, spaces, env.action_space.n) for name in names}
    memory = RandomMemory(memory_size=spec["buffer"], num_envs=env.num_envs)
    return build(timed(DQN, window, spec["train_every"], spec["num_envs"]), models, memory, env, cfg, experiment)


def spaces_of(env: Wrapper) -> dict[str, Any]:
    return {
        "observation_space": env.observation_space,
        "state_space": env.state_space,
        "action_space": env.action_space,
        "device": "cpu",
    }


def build(
    kind: type[Agent],
    models: dict[str, Model],
    memory: RandomMemory,
    env: Wrapper,
    cfg: Any,
    experiment: dict[str, Any],
) -> Agent:
    for name, value in experiment.items():
        setattr(cfg.experiment, name, value)
    return kind(models=models, memory=memory, cfg=cfg, **spaces_of(env))


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    set_seed(spec["seed"])
    window = Window(spec["seconds"], spec["warmup_steps"])
    env = make_env(spec)
    with tempfile.TemporaryDirectory() as folder:
        agent = {"ppo": ppo, "dqn": dqn}[spec["algo"]](spec, env, window, {"directory": folder})
        cfg = {"timesteps": TIMESTEPS, "headless": True, "disable_progressbar": True}
        with contextlib.suppress(Done):
            SequentialTrainer(cfg=cfg, env=env, agents=agent).train()
    answer(**window.result())


if __name__ == "__main__":
    main()
