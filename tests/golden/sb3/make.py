"""Golden files of Stable-Baselines3: small models trained for a moment, with observations and the actions of `predict`."""
import json, sys
from pathlib import Path
import numpy as np, gymnasium, torch, stable_baselines3 as sb3
out = Path(sys.argv[1]); out.mkdir(parents=True, exist_ok=True)
arch = {"net_arch": [8, 8]}
CASES = {
  "ppo_cartpole": (sb3.PPO, "CartPole-v1", dict(n_steps=64, batch_size=32, n_epochs=1, policy_kwargs=dict(arch))),
  "ppo_pendulum": (sb3.PPO, "Pendulum-v1", dict(n_steps=64, batch_size=32, n_epochs=1, policy_kwargs={"net_arch": dict(pi=[8, 8], vf=[16])})),
  "a2c_acrobot": (sb3.A2C, "Acrobot-v1", dict(policy_kwargs={**arch, "activation_fn": torch.nn.ReLU})),
  "dqn_cartpole": (sb3.DQN, "CartPole-v1", dict(buffer_size=256, learning_starts=32, policy_kwargs=dict(arch))),
  "sac_pendulum": (sb3.SAC, "Pendulum-v1", dict(buffer_size=256, learning_starts=32, policy_kwargs=dict(arch))),
  "td3_pendulum": (sb3.TD3, "Pendulum-v1", dict(buffer_size=256, learning_starts=32, policy_kwargs=dict(arch))),
}
for name, (algo, env, kw) in CASES.items():
    model = algo("MlpPolicy", env, seed=0, device="cpu", **kw).learn(200)
    model.save(out / f"{name}.zip")
    e = gymnasium.make(env); e.action_space.seed(0)
    obs, _ = e.reset(seed=0); rows = []
    for _ in range(200):
        rows.append(obs)
        obs, _, te, tr, _ = e.step(e.action_space.sample())
        if te or tr: obs, _ = e.reset()
    rows = np.asarray(rows, np.float32)
    actions, _ = model.predict(rows, deterministic=True)
    (out / f"{name}.json").write_text(json.dumps({"env": env, "sb3": sb3.__version__, "observations": [[float(v) for v in r] for r in rows], "actions": actions.tolist()}))
