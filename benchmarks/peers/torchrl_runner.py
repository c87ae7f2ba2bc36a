"""TorchRL as its `sota-implementations` write it: collector, replay buffer, loss module and a plain loop."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from measure import Job, Window, answer, job
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import GymEnv, SerialEnv
from torchrl.envs.common import EnvBase
from torchrl.envs.transforms import RewardSum, StepCounter, TransformedEnv
from torchrl.modules import MLP, EGreedyModule, OneHotCategorical, ProbabilisticActor, QValueActor, ValueOperator
from torchrl.objectives import ClipPPOLoss, DQNLoss, HardUpdate
from torchrl.objectives.value.advantages import GAE

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


def make_env(spec: Job) -> EnvBase:
    def one() -> EnvBase:
        return GymEnv(spec["env_id"])

    env = one() if spec["num_envs"] == 1 else SerialEnv(spec["num_envs"], one)
    env = TransformedEnv(env)
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    return env


def network(spec: Job, env: EnvBase, outputs: int) -> MLP:
    inputs = env.observation_spec["observation"].shape[-1]
    return MLP(
        in_features=inputs,
        out_features=outputs,
        num_cells=spec["hidden_sizes"],
        activation_class=ACTIVATIONS[spec["activation"]],
    )


def batches(env: EnvBase, policy: TensorDictModule, frames: int, random_frames: int = 0) -> Iterator[TensorDictBase]:
    collector = Collector(
        env,
        policy,
        frames_per_batch=frames,
        total_frames=-1,
        device="cpu",
        storing_device="cpu",
        init_random_frames=random_frames,
    )
    yield from collector


def ppo(spec: Job, window: Window) -> None:
    env = make_env(spec)
    actions = env.action_spec.shape[-1]
    actor = ProbabilisticActor(
        TensorDictModule(network(spec, env, actions), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(network(spec, env, 1), in_keys=["observation"])
    advantage = GAE(gamma=spec["gamma"], lmbda=spec["gae_lambda"], value_network=critic, average_gae=False)
    loss_module = ClipPPOLoss(
        actor_network=actor,
        critic_network=critic,
        clip_epsilon=spec["clip"],
        loss_critic_type="l2",
        entropy_coeff=spec["entropy_coef"],
        critic_coeff=spec["value_coef"],
        normalize_advantage=True,
    )
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=spec["lr"])
    frames = spec["rollout_steps"] * spec["num_envs"]
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames), sampler=SamplerWithoutReplacement(), batch_size=spec["batch_size"]
    )
    collected = 0
    for rollout in batches(env, actor, frames):
        with torch.no_grad():
            rows = advantage(rollout).reshape(-1)
        buffer.extend(rows)
        for _ in range(spec["passes"]):
            for batch in buffer:
                losses = loss_module(batch)
                step(losses["loss_objective"] + losses["loss_entropy"] + losses["loss_critic"], optimizer, spec)
        collected += frames
        if window.mark(collected):
            return


def dqn(spec: Job, window: Window) -> None:
    env = make_env(spec)
    model = QValueActor(network(spec, env, env.action_spec.shape[-1]), in_keys=["observation"], spec=env.action_spec)
    explore = EGreedyModule(spec=env.action_spec, eps_init=spec["epsilon"], eps_end=spec["epsilon"])
    loss_module = DQNLoss(value_network=model, loss_function="smooth_l1", delay_value=True, action_space="one-hot")
    loss_module.make_value_estimator(gamma=spec["gamma"])
    updates_per_target = spec["target_every_steps"] // spec["train_every"]
    target = HardUpdate(loss_module, value_network_update_interval=updates_per_target)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=spec["lr"])
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(spec["buffer"]), batch_size=spec["batch_size"])
    collected = 0
    policy = TensorDictSequential(model, explore)
    for data in batches(env, policy, spec["train_every"], random_frames=spec["learning_starts"]):
        buffer.extend(data.reshape(-1))
        collected += data.numel()
        if collected >= spec["learning_starts"]:
            step(loss_module(buffer.sample())["loss"], optimizer, spec)
            target.step()
        if window.mark(collected):
            return


def step(loss: torch.Tensor, optimizer: torch.optim.Optimizer, spec: Job) -> None:
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], spec["max_grad_norm"])
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    warnings.simplefilter("ignore")
    spec = job()
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(spec["seed"])
    window = Window(spec["seconds"], spec["warmup_steps"])
    {"ppo": ppo, "dqn": dqn}[spec["algo"]](spec, window)
    answer(**window.result())


if __name__ == "__main__":
    main()
