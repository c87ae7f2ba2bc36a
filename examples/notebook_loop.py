# %% [markdown]
# A whole run from Python, cell by cell: editors and Jupyter (through jupytext) read this file as a notebook.

# %% The experiment: a file, or plain data.
from rlstudio import orchestrator

config = {
    "name": "from_a_notebook",
    "env": {"id": "CartPole-v1", "num_envs": 8, "seed": 1},
    "policy": {"algo": "ppo"},
    "train": {"epochs": 5, "steps_per_epoch": 2048, "rollout_steps": 32, "lr": 1e-3, "gae_lambda": 0.8},
}

# %% Train until it is good enough. Leaving the loop leaves a run that goes on later, bit for bit.
curve = []
with orchestrator.session(config) as session:
    for tick in session:
        if tick.report:
            curve.append((tick.env_steps, tick.report.metrics["rollout/return_mean"]))
            print(f"epoch {tick.epoch}  return {curve[-1][1]:.1f}")
            if curve[-1][1] > 100:
                break
print(session.status.state, session.folder.path)

# %% Go on with the same run, to the end.
if session.status.state == "INTERRUPTED":
    with orchestrator.get(session.folder.id).session() as session:
        for tick in session:
            if tick.report:
                curve.append((tick.env_steps, tick.report.metrics["rollout/return_mean"]))
                print(f"epoch {tick.epoch}  return {curve[-1][1]:.1f}")
print(session.status.state, f"evaluation {session.status.eval_return:.1f}")
