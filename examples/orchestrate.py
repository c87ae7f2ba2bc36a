"""Several runs from Python, with the queue, the store and the lineage of `rlctl`: python orchestrate.py"""

from rlstudio import orchestrator

CONFIG = {
    "name": "orchestrated",
    "env": {"id": "CartPole-v1", "num_envs": 8},
    "policy": {"algo": "ppo"},
    "train": {"epochs": 2, "steps_per_epoch": 2048, "rollout_steps": 32, "lr": 1e-3, "gae_lambda": 0.8},
}

# In the background, as many at a time as there are cores.
runs = [orchestrator.launch(CONFIG, seed=seed) for seed in (1, 2)]
for run in runs:
    run.wait()
    print(run.id, run.state, f"return {run.status.eval_return:.1f}")

# A child of the better one: from its newest checkpoint, twice as long, with a smaller learning rate.
best = max(runs, key=lambda run: run.status.eval_return or 0.0)
child = best.fork("train.epochs=4", "train.lr=3e-4").wait()
print(child.id, "forked from", best.id, f"return {child.status.eval_return:.1f}")
print("100 greedy episodes:", child.evaluate(episodes=100).summary.mean)
