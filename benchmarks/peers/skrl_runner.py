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
from skrl.agents.torch.a2c import A2C, A2C_CFG
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.agents.torch.td3 import TD3, TD3_CFG
from skrl.envs.wrappers.torch import Wrapper, wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
from skrl.resources.noises.torch import GaussianNoise
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


class GaussianPolicy(GaussianMixin, Model):
    """As in skrl's Pendulum examples: the mean squashed to the bounds, one standard deviation for all states."""

    def __init__(self, spec: Job, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self, clip_actions=True)
        self.net = network(spec, self.num_observations, self.num_actions)
        self.scale = float(self.action_space.high[0])
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.scale * torch.tanh(self.net(inputs["observations"])), {"log_std": self.log_std}


class DeterministicPolicy(DeterministicMixin, Model):
    def __init__(self, spec: Job, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self, clip_actions=True)
        self.net = network(spec, self.num_observations, self.num_actions)
        self.scale = float(self.action_space.high[0])

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.scale * torch.tanh(self.net(inputs["observations"])), {}


class ActionValue(DeterministicMixin, Model):
    def __init__(self, spec: Job, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(spec, self.num_observations + self.num_actions, 1)

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(torch.cat([inputs["observations"], inputs["taken_actions"]], dim=-1)), {}


class Values(DeterministicMixin, Model):
    """State values for PPO and A2C (one output), action values for DQN (one for each action)."""

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
    return on_policy(PPO, cfg, spec, env, window, experiment)


def a2c(spec: Job, env: Wrapper, window: Window, experiment: dict[str, Any]) -> Agent:
    cfg = A2C_CFG(
        rollouts=spec["rollout_steps"],
        mini_batches=1,
        discount_factor=spec["gamma"],
        gae_lambda=spec["gae_lambda"],
        learning_rate=spec["lr"],
        grad_norm_clip=spec["max_grad_norm"],
        entropy_loss_scale=spec["entropy_coef"],
    )
    return on_policy(A2C, cfg, spec, env, window, experiment)


def on_policy(
    kind: type[Agent], cfg: Any, spec: Job, env: Wrapper, window: Window, experiment: dict[str, Any]
) -> Agent:
    spaces = spaces_of(env)
    policy = Policy if isinstance(env.action_space, gymnasium.spaces.Discrete) else GaussianPolicy
    models = {"policy": policy(spec, spaces), "value": Values(spec, spaces, 1)}
    memory = RandomMemory(memory_size=spec["rollout_steps"], num_envs=env.num_envs)
    return build(timed(kind, window, spec["rollout_steps"], spec["num_envs"]), models, memory, env, cfg, experiment)


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


def sac(spec: Job, env: Wrapper, window: Window, experiment: dict[str, Any]) -> Agent:
    models = {"policy": GaussianPolicy(spec, spaces_of(env))}
    return twin_values(SAC, SAC_CFG(**replay(spec)), models, spec, env, window, experiment)


def td3(spec: Job, env: Wrapper, window: Window, experiment: dict[str, Any]) -> Agent:
    high = float(env.action_space.high[0])
    cfg = TD3_CFG(
        exploration_noise=GaussianNoise,
        exploration_noise_kwargs={"mean": 0.0, "std": spec["noise_std"] * high},
        smooth_regularization_noise=GaussianNoise,
        smooth_regularization_noise_kwargs={"mean": 0.0, "std": spec["target_noise"] * high},
        smooth_regularization_clip=spec["target_noise_clip"] * high,
        policy_delay=spec["policy_delay"],
        **replay(spec),
    )
    models = {name: DeterministicPolicy(spec, spaces_of(env)) for name in ("policy", "target_policy")}
    return twin_values(TD3, cfg, models, spec, env, window, experiment)


def replay(spec: Job) -> dict[str, Any]:
    return {
        "batch_size": spec["batch_size"],
        "discount_factor": spec["gamma"],
        "polyak": spec["tau"],
        "learning_rate": spec["lr"],
        "learning_starts": spec["learning_starts"],
        "random_timesteps": spec["learning_starts"],
    }


def twin_values(
    kind: type[Agent],
    cfg: Any,
    policies: dict[str, Model],
    spec: Job,
    env: Wrapper,
    window: Window,
    experiment: dict[str, Any],
) -> Agent:
    names = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    models = {**policies, **{name: ActionValue(spec, spaces_of(env)) for name in names}}
    memory = RandomMemory(memory_size=spec["buffer"], num_envs=env.num_envs)
    return build(timed(kind, window, spec["train_every"], spec["num_envs"]), models, memory, env, cfg, experiment)


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


BUILD = {"ppo": ppo, "a2c": a2c, "dqn": dqn, "sac": sac, "td3": td3}


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    set_seed(spec["seed"])
    window = Window(spec["seconds"], spec["warmup_steps"])
    env = make_env(spec)
    with tempfile.TemporaryDirectory() as folder:
        agent = BUILD[spec["algo"]](spec, env, window, {"directory": folder})
        cfg = {"timesteps": TIMESTEPS, "headless": True, "disable_progressbar": True}
        with contextlib.suppress(Done):
            SequentialTrainer(cfg=cfg, env=env, agents=agent).train()
    answer(**window.result())


if __name__ == "__main__":
    main()
