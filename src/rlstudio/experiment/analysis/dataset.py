"""Greedy episodes of a trained agent as a dataset: `rlctl record RUN --episodes 50 --dataset cartpole/expert-v0`.

They are the episodes that an evaluation of as many would play, step by step. The dataset names the environment, the
seed of each episode, and the run and code that it comes from.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlstudio.core.contracts import Agent
from rlstudio.core.errors import ConfigError
from rlstudio.data.collect.carry import without_rows
from rlstudio.data.datasets.minari_files import Episode, check_new, write_dataset
from rlstudio.envs.config import EnvConfig, Vectorization
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.evaluate import LONGEST, Evaluator
from rlstudio.experiment.lineage.lineage import recorded_lineage
from rlstudio.experiment.run.load import load_run


class Recorded(NamedTuple):
    path: Path
    episodes: int
    steps: int
    return_mean: float


def record_run(
    folder: RunFolder, dataset: str, *, episodes: int, seed: int | None = None, checkpoint: str = "last"
) -> Recorded:
    """A new dataset; the run is only read. Without a seed, the run's own."""
    check_new(dataset)
    loaded = load_run(folder, checkpoint)
    seed = loaded.cfg.env.seed if seed is None else seed
    played = play(loaded.agent, loaded.cfg.env, episodes=episodes, seed=seed)
    lineage = recorded_lineage(folder) or {}
    code = (lineage.get("code") or {}).get("rlstudio") or {}
    commit = f"{code.get('commit') or 'unknown'}{'+' if code.get('dirty') else ''}"
    versions = ", ".join(f"{name} {version}" for name, version in (lineage.get("versions") or {}).items() if version)
    path = write_dataset(
        dataset,
        played,
        loaded.agent.spaces,
        env_spec(loaded.cfg.env),
        algorithm=loaded.cfg.policy.algo,
        code=commit,
        description=f"{episodes} greedy episodes of {folder.id} at step {loaded.env_steps}, seed {seed}; {versions}",
    )
    returns = [float(episode.rewards.sum()) for episode in played]
    return Recorded(path, len(played), sum(len(episode.rewards) for episode in played), float(np.mean(returns)))


def play(
    agent: Agent, env_cfg: EnvConfig, *, episodes: int, seed: int, vectorization: Vectorization = "auto"
) -> list[Episode]:
    """The episodes of an evaluation with this seed, in the order of their numbers."""
    recording = _Recording(env_cfg, episodes=episodes, seed=seed, vectorization=vectorization)
    try:
        return recording.play(agent)
    finally:
        recording.close()


class _Recording(Evaluator):
    """An evaluation that keeps every step."""

    def play(self, agent: Agent) -> list[Episode]:
        env, observations = self._restart()
        seeds = self.seeds
        found: list[Episode | None] = [None] * self.episodes
        playing = list(range(env.num_envs))
        steps: list[list[tuple[Any, ...]]] = [[] for _ in playing]
        carry = None
        while None in found:
            acted = agent.step(observations, carry)
            seen = [_row(observations, number) for number in range(env.num_envs)]
            step = env.step(acted.actions)
            for number, rows in enumerate(steps):
                rows.append((seen[number], acted.actions[number].copy(), step.rewards[number]))
            ended = np.logical_or(step.terminated, step.truncated)
            for number in ended.nonzero()[0].tolist():
                if playing[number] < self.episodes:
                    last = _row(step.successors, number), bool(step.terminated[number]), bool(step.truncated[number])
                    found[playing[number]] = _episode(steps[number], *last, seeds[playing[number]])
                playing[number] += env.num_envs
                steps[number] = []
            observations, carry = step.observations, acted.carry
            if max(map(len, steps)) >= LONGEST:
                raise ConfigError(
                    f"env.max_episode_steps: an episode of {self.env_cfg.id} did not end within {LONGEST} steps;"
                    " set a limit"
                )
            if ended.any():
                carry = without_rows(carry, ended.nonzero()[0])
        return [episode for episode in found if episode is not None]


def _row(observations: Any, number: int) -> Any:
    if isinstance(observations, dict):
        return {name: rows[number].copy() for name, rows in observations.items()}
    return observations[number].copy()


def _episode(steps: list[tuple[Any, ...]], last: Any, terminated: bool, truncated: bool, seed: int) -> Episode:
    seen = [*(observation for observation, _, _ in steps), last]
    ends = np.zeros((2, len(steps)), bool)
    ends[:, -1] = terminated, truncated
    return Episode(
        observations={name: np.stack([row[name] for row in seen]) for name in last}
        if isinstance(last, dict)
        else np.stack(seen),
        actions=np.stack([action for _, action, _ in steps]),
        rewards=np.array([reward for _, _, reward in steps], np.float32),
        terminated=ends[0],
        truncated=ends[1],
        seed=seed,
    )


def env_spec(cfg: EnvConfig) -> EnvSpec | None:
    """What Gymnasium makes this environment from; None where it is wrapped, or a world of our own."""
    spec = None if cfg.wrappers else Recipe(cfg).spec
    if spec is not None:
        spec = copy.deepcopy(spec)
        spec.kwargs = {**spec.kwargs, **cfg.kwargs}
        spec.max_episode_steps = cfg.max_episode_steps or spec.max_episode_steps
    return spec
