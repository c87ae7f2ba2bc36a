"""RLStudio as `rlctl launch` runs it: a real session with run folder, metrics, guardrails, checkpoints and status.

Every section that the row does not name keeps its default. Only evaluation during training is off in rate rows, because
no other side has one there; `solve` evaluates on both sides.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from measure import Job, Window, answer, job, since

from rlstudio import orchestrator
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.loop import Tick

ENDLESS = 10**6


ROLLOUTS = {"lr_schedule": "constant", "normalize_rewards": False}


def ppo(spec: Job) -> dict[str, Any]:
    names = ("rollout_steps", "passes", "gae_lambda", "clip", "value_coef", "entropy_coef")
    return {"train": {**ROLLOUTS, "steps_per_epoch": 4096, **{name: spec[name] for name in names}}}


def a2c(spec: Job) -> dict[str, Any]:
    names = ("rollout_steps", "gae_lambda", "value_coef", "entropy_coef")
    return {"train": {**ROLLOUTS, "optimizer": "rmsprop", **{name: spec[name] for name in names}}}


def dqn(spec: Job) -> dict[str, Any]:
    return _q_learning(spec, double=False)


def qrdqn(spec: Job) -> dict[str, Any]:
    return _q_learning(spec, quantiles=spec["quantiles"])


def _q_learning(spec: Job, **own: Any) -> dict[str, Any]:
    epsilon = {"epsilon_start": spec["epsilon"], "epsilon_end": spec["epsilon"]}
    target = {"target_every": spec["target_every_steps"] // spec["train_every"]}  # ours counts updates
    return _replay(spec, **target, **epsilon, **own)


def sac(spec: Job) -> dict[str, Any]:
    return _replay(spec, tau=spec["tau"])


def td3(spec: Job) -> dict[str, Any]:
    names = ("tau", "policy_delay", "noise_std", "target_noise", "target_noise_clip")
    return _replay(spec, **{name: spec[name] for name in names})


def _replay(spec: Job, **own: Any) -> dict[str, Any]:
    names = ("learning_starts", "train_every")
    train = {"gradient_steps": 1, **{name: spec[name] for name in names}, **own}
    return {"train": train, "buffer": {"capacity": spec["buffer"]}}


ALGOS = {"ppo": ppo, "a2c": a2c, "dqn": dqn, "qrdqn": qrdqn, "sac": sac, "td3": td3}


def experiment(spec: Job) -> ExperimentConfig:
    """The row's settings in our words."""
    own = ALGOS[spec["algo"]](spec)
    network = {name: spec[name] for name in ("hidden_sizes", "activation")} | {"normalize_observations": False}
    minibatches = () if spec["algo"] == "a2c" else ("batch_size",)
    train = {name: spec[name] for name in (*minibatches, "lr", "gamma", "max_grad_norm")} | own.pop("train")
    evaluation = {"every_epochs": 0}
    if spec["what"] == "solve":
        train |= {"steps_per_epoch": spec["eval_every"], "epochs": spec["max_steps"] // spec["eval_every"]}
        evaluation = {"every_epochs": 1, "episodes": spec["eval_episodes"]}
    else:
        train["epochs"] = ENDLESS
    env = {name: spec[source] for name, source in (("id", "env_id"), ("num_envs", "num_envs"), ("seed", "seed"))}
    return experiment_from(
        {
            "env": {**env, "vectorization": spec["vectorization"]},
            "policy": {"algo": spec["algo"], "network": network},
            "train": train,
            "eval": evaluation,
            "runtime": {"threads": spec["threads"]},
            **({"rollout": spec["rollout"]} if "rollout" in spec else {}),
            **own,
        }
    )


def rate(spec: Job, session: Session) -> dict[str, Any]:
    window = Window(spec["seconds"], spec["warmup_steps"])
    _until(session, lambda tick: window.mark(tick.env_steps))
    return window.result()


def solve(spec: Job, session: Session) -> dict[str, Any]:
    found: dict[str, Any] = {"seconds": None, "env_steps": 0, "value": float("nan")}

    def evaluated(tick: Tick) -> bool:
        if tick.report is None or session.evaluation is None:
            return False
        found.update(env_steps=tick.env_steps, value=session.evaluation.summary.mean)
        if found["value"] >= spec["threshold"]:
            found["seconds"] = since(spec["started"])
        return found["seconds"] is not None

    _until(session, evaluated)
    return found


def checkpoint(spec: Job, session: Session) -> dict[str, Any]:
    """What saving costs at the cadence a user has by default. One more save happens when the loop is left."""
    spent: list[float] = []
    within: list[float] = []
    save = session._save

    def timed() -> None:
        begun = time.perf_counter()
        save()
        spent.append(time.perf_counter() - begun)

    session._save = timed  # type: ignore[method-assign]
    started = time.perf_counter()

    def over(tick: Tick) -> bool:
        done = time.perf_counter() - started >= spec["seconds"]
        if done:
            within.extend(spent)
        return done

    _until(session, over)
    share = sum(within) / spec["seconds"]
    return {"saves": len(within), "save_ms": round(1000 * median(spent), 1), "share": round(share, 5)}


def _until(session: Session, done: Callable[[Tick], bool]) -> None:
    ticks = iter(session)
    for tick in ticks:
        if done(tick):
            break
    ticks.close()  # type: ignore[attr-defined]


def main() -> None:
    spec = job()
    with tempfile.TemporaryDirectory() as folder, orchestrator.session(experiment(spec), runs_dir=folder) as session:
        answer(**{"rate": rate, "solve": solve, "checkpoint": checkpoint}[spec["what"]](spec, session))


if __name__ == "__main__":
    main()
