"""TorchRL as its `sota-implementations` write it: collector, replay buffer, loss module and a plain loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from measure import Job, Window, answer, job
from tensordict import TensorDictBase
from tensordict.nn import (
    AddStateIndependentNormalScale,
    NormalParamExtractor,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import GymEnv, SerialEnv
from torchrl.envs.common import EnvBase
from torchrl.envs.transforms import RewardSum, StepCounter, TransformedEnv
from torchrl.envs.utils import ExplorationType
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    EGreedyModule,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhModule,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import A2CLoss, ClipPPOLoss, DQNLoss, HardUpdate, SACLoss, SoftUpdate, TD3Loss, group_optimizers
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


def network(spec: Job, env: EnvBase, outputs: int, more_inputs: int = 0) -> MLP:
    inputs = env.observation_spec["observation"].shape[-1]
    return MLP(
        in_features=inputs + more_inputs,
        out_features=outputs,
        num_cells=spec["hidden_sizes"],
        activation_class=ACTIVATIONS[spec["activation"]],
    )


def batches(
    env: EnvBase, policy: TensorDictModuleBase, frames: int, random_frames: int = 0
) -> Iterator[TensorDictBase]:
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


def policy_and_value(spec: Job, env: EnvBase) -> tuple[ProbabilisticActor, ValueOperator]:
    actions = env.action_spec.shape[-1]
    if env.action_spec.domain == "discrete":
        module = TensorDictModule(network(spec, env, actions), in_keys=["observation"], out_keys=["logits"])
        policy = ProbabilisticActor(
            module, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
        )
    else:
        policy = tanh_normal(nn.Sequential(network(spec, env, actions), AddStateIndependentNormalScale(actions)), env)
    return policy, ValueOperator(network(spec, env, 1), in_keys=["observation"])


def tanh_normal(net: nn.Module, env: EnvBase, log_prob: bool = True) -> ProbabilisticActor:
    space = env.action_spec_unbatched
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=space,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": space.space.low, "high": space.space.high, "tanh_loc": False},
        default_interaction_type=ExplorationType.RANDOM,
        return_log_prob=log_prob,
    )


def ppo(spec: Job, window: Window) -> None:
    env = make_env(spec)
    policy, value = policy_and_value(spec, env)
    loss_module = ClipPPOLoss(
        actor_network=policy,
        critic_network=value,
        clip_epsilon=spec["clip"],
        loss_critic_type="l2",
        entropy_coeff=spec["entropy_coef"],
        critic_coeff=spec["value_coef"],
        normalize_advantage=True,
    )
    on_policy(spec, window, env, policy, value, loss_module, torch.optim.Adam(loss_module.parameters(), lr=spec["lr"]))


def a2c(spec: Job, window: Window) -> None:
    env = make_env(spec)
    policy, value = policy_and_value(spec, env)
    loss_module = A2CLoss(
        actor_network=policy,
        critic_network=value,
        loss_critic_type="l2",
        entropy_coeff=spec["entropy_coef"],
        critic_coeff=spec["value_coef"],
    )
    optimizer = torch.optim.RMSprop(
        loss_module.parameters(), lr=spec["lr"], alpha=spec["rms_alpha"], eps=spec["rms_eps"]
    )
    on_policy(spec, window, env, policy, value, loss_module, optimizer)


def on_policy(
    spec: Job,
    window: Window,
    env: EnvBase,
    policy: ProbabilisticActor,
    value: ValueOperator,
    loss_module: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    advantage = GAE(gamma=spec["gamma"], lmbda=spec["gae_lambda"], value_network=value, average_gae=False)
    frames = spec["rollout_steps"] * spec["num_envs"]
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames), sampler=SamplerWithoutReplacement(), batch_size=spec["batch_size"]
    )
    collected = 0
    for rollout in batches(env, policy, frames):
        with torch.no_grad():
            rows = advantage(rollout).reshape(-1)
        buffer.extend(rows)
        for _ in range(spec.get("passes", 1)):
            for batch in buffer:
                losses = loss_module(batch)
                entropy = losses.get("loss_entropy", 0.0)  # A2C leaves it out where its weight is zero
                step(losses["loss_objective"] + entropy + losses["loss_critic"], optimizer, spec)
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

    def update(batch: TensorDictBase) -> None:
        step(loss_module(batch)["loss"], optimizer, spec)
        target.step()

    off_policy(spec, window, env, TensorDictSequential(model, explore), update)


def sac(spec: Job, window: Window) -> None:
    env = make_env(spec)
    actions = env.action_spec.shape[-1]
    policy = tanh_normal(nn.Sequential(network(spec, env, 2 * actions), NormalParamExtractor()), env, log_prob=False)
    loss_module = SACLoss(policy, action_value(spec, env), num_qvalue_nets=2, loss_function="l2", delay_qvalue=True)
    loss_module.make_value_estimator(gamma=spec["gamma"])
    target = SoftUpdate(loss_module, tau=spec["tau"])
    parts = [*parameters(loss_module), [loss_module.log_alpha]]
    optimizer = group_optimizers(*(torch.optim.Adam(part, lr=spec["lr"]) for part in parts))

    def update(batch: TensorDictBase) -> None:
        losses = loss_module(batch)
        step(losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"], optimizer, spec)
        target.step()

    off_policy(spec, window, env, policy, update)


def td3(spec: Job, window: Window) -> None:
    env = make_env(spec)
    space = env.action_spec_unbatched
    high = float(space.space.high[0])
    policy = TensorDictSequential(
        TensorDictModule(network(spec, env, space.shape[-1]), in_keys=["observation"], out_keys=["param"]),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=space),
    )
    noise = spec["noise_std"] * high
    explore = AdditiveGaussianModule(spec=space, sigma_init=1.0, sigma_end=1.0, mean=0.0, std=noise)
    loss_module = TD3Loss(
        policy,
        action_value(spec, env),
        num_qvalue_nets=2,
        loss_function="l2",
        delay_actor=True,
        delay_qvalue=True,
        action_spec=space,
        policy_noise=spec["target_noise"] * high,
        noise_clip=spec["target_noise_clip"] * high,
    )
    loss_module.make_value_estimator(gamma=spec["gamma"])
    target = SoftUpdate(loss_module, tau=spec["tau"])
    of_policy, of_values = (torch.optim.Adam(part, lr=spec["lr"]) for part in parameters(loss_module))
    updates = 0

    def update(batch: TensorDictBase) -> None:
        nonlocal updates
        updates += 1
        value_loss, *_ = loss_module.value_loss(batch)
        step(value_loss, of_values, spec)
        if updates % spec["policy_delay"] == 0:
            policy_loss, *_ = loss_module.actor_loss(batch)
            step(policy_loss, of_policy, spec)
            target.step()

    off_policy(spec, window, env, TensorDictSequential(policy, explore), update)


def action_value(spec: Job, env: EnvBase) -> ValueOperator:
    net = network(spec, env, 1, more_inputs=env.action_spec.shape[-1])
    return ValueOperator(net, in_keys=["action", "observation"])


def parameters(loss_module: Any) -> list[list[nn.Parameter]]:
    """Of the policy, and of both value networks."""
    groups = (loss_module.actor_network_params, loss_module.qvalue_network_params)
    return [list(group.flatten_keys().values()) for group in groups]


def off_policy(
    spec: Job,
    window: Window,
    env: EnvBase,
    policy: TensorDictModuleBase,
    update: Callable[[TensorDictBase], None],
) -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(spec["buffer"]), batch_size=spec["batch_size"])
    collected = 0
    for data in batches(env, policy, spec["train_every"], random_frames=spec["learning_starts"]):
        buffer.extend(data.reshape(-1))
        collected += data.numel()
        if collected >= spec["learning_starts"]:
            update(buffer.sample())
        if window.mark(collected):
            return


def step(loss: torch.Tensor, optimizer: torch.optim.Optimizer, spec: Job) -> None:
    loss.backward()
    if spec["max_grad_norm"] is not None:
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], spec["max_grad_norm"])
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    warnings.simplefilter("ignore")
    spec = job()
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(spec["seed"])
    window = Window(spec["seconds"], spec["warmup_steps"])
    {"ppo": ppo, "a2c": a2c, "dqn": dqn, "sac": sac, "td3": td3}[spec["algo"]](spec, window)
    answer(**window.result())


if __name__ == "__main__":
    main()
