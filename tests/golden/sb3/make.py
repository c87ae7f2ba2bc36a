"""Writes the golden files: small models of Stable-Baselines3, with observations and what its `predict` does there.

    .bench/sb3/bin/python tests/golden/sb3/make.py [plain] [normalized]

They are trained for a moment, then their last layers are moved so that the actions differ from row to row and some of
them leave the bounds.
"""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

HERE = Path(__file__).parent
ON_POLICY, OFF_POLICY = {"n_steps": 64}, {"buffer_size": 256, "learning_starts": 32}
SMALL = {"net_arch": [8, 8]}
CASES = {
    "ppo_cartpole": (sb3.PPO, "CartPole-v1", ON_POLICY, SMALL),
    "ppo_pendulum": (sb3.PPO, "Pendulum-v1", ON_POLICY, {"net_arch": {"pi": [8, 8], "vf": [16]}}),
    "a2c_acrobot": (sb3.A2C, "Acrobot-v1", {}, {**SMALL, "activation_fn": torch.nn.ReLU}),
    "dqn_cartpole": (sb3.DQN, "CartPole-v1", OFF_POLICY, SMALL),
    "sac_pendulum": (sb3.SAC, "Pendulum-v1", OFF_POLICY, SMALL),
    "td3_pendulum": (sb3.TD3, "Pendulum-v1", OFF_POLICY, SMALL),
}


def seen(env_id):
    env = gymnasium.make(env_id)
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    rows = []
    for _ in range(200):
        rows.append(observation)
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset()
    return np.asarray(rows, np.float32)


@torch.no_grad()
def spread(model, rows):
    """Outputs that are large for numbers and even for choices."""
    policy, shown = model.policy, torch.from_numpy(rows)
    if isinstance(model, sb3.DQN):
        last, outputs = policy.q_net.q_net[-1], policy.q_net(shown)
        last.bias -= outputs.median(0).values
    elif isinstance(model, sb3.PPO | sb3.A2C):
        policy.action_net.weight *= 400
    elif isinstance(model, sb3.SAC):
        policy.actor.mu.weight *= 10


def written(model, name, env_id, rows, shown):
    """`shown` is what the model sees of the rows."""
    actions, _ = model.predict(shown, deterministic=True)
    assert len(np.unique(actions.round(3))) > 1, name
    model.save(HERE / f"{name}.zip")
    golden = {"env": env_id, "sb3": sb3.__version__, "observations": rows.tolist(), "actions": actions.tolist()}
    (HERE / f"{name}.json").write_text(json.dumps(golden))


def plain():
    for name, (algo, env_id, options, policy) in CASES.items():
        model = algo("MlpPolicy", env_id, seed=0, device="cpu", policy_kwargs=dict(policy), **options).learn(200)
        rows = seen(env_id)
        spread(model, rows)
        written(model, name, env_id, rows, rows)


def normalized():
    """A model behind VecNormalize, and its statistics, as `VecNormalize.save` writes them."""
    name, env_id = "normalized/ppo_pendulum", "Pendulum-v1"
    env = VecNormalize(make_vec_env(env_id, n_envs=2, seed=0))
    model = sb3.PPO("MlpPolicy", env, seed=0, device="cpu", policy_kwargs=dict(SMALL), gamma=0.95, **ON_POLICY)
    model.learn(512)
    rows = seen(env_id)
    shown = env.normalize_obs(rows)
    spread(model, shown)
    (HERE / "normalized").mkdir(exist_ok=True)
    written(model, name, env_id, rows, shown)
    env.save(HERE / f"{name}.pkl")
    moments = {"mean": env.obs_rms.mean, "var": env.obs_rms.var, "count": env.obs_rms.count}
    returns = {"mean": env.ret_rms.mean, "var": env.ret_rms.var, "count": env.ret_rms.count}
    known = {"observations": moments, "returns": returns}
    (HERE / f"{name}.statistics.json").write_text(json.dumps(known, default=np.ndarray.tolist))


if __name__ == "__main__":
    for make in ([globals()[name] for name in sys.argv[1:]] or [plain, normalized]):
        make()
