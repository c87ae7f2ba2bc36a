"""Greedy episodes of a trained agent as a dataset: `rlctl record RUN --episodes 50 --dataset cartpole/expert-v0`.

They are the episodes that an evaluation of as many would play, step by step. The dataset names the environment, the
seed of each episode, and the run and code that it comes from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlstudio.core.contracts import Array, Player
from rlstudio.core.errors import Incompatible
from rlstudio.data.datasets.episodes import RecordedEpisode
from rlstudio.data.datasets.minari_files import check_new, write_dataset
from rlstudio.envs.config import EnvConfig, Vectorization
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.evaluate import Evaluator
from rlstudio.experiment.judging.play import each
from rlstudio.experiment.lineage.lineage import recorded_lineage
from rlstudio.experiment.run.load import load_run


class RecordedDataset(NamedTuple):
    path: Path
    episodes: int
    steps: int
    return_mean: float


def record_run(
    folder: RunFolder, dataset: str, *, episodes: int, seed: int | None = None, checkpoint: str = "last"
) -> RecordedDataset:
    """A new dataset; the run is only read. Without a seed, the run's own."""
    check_new(dataset)
    loaded = load_run(folder, checkpoint)
    seed = loaded.cfg.env.seed if seed is None else seed
    played = recorded_episodes(loaded.agent, loaded.cfg.eval_env, episodes=episodes, seed=seed)
    lineage = recorded_lineage(folder) or {}
    code: Mapping[str, object] = (lineage.get("code") or {}).get("rlstudio") or {}
    commit = f"{code.get('commit') or 'unknown'}{'+' if code.get('dirty') else ''}"
    versions = ", ".join(f"{name} {version}" for name, version in (lineage.get("versions") or {}).items() if version)
    path = write_dataset(
        dataset,
        played,
        loaded.agent.spaces,
        env_spec(loaded.cfg.eval_env),
        algorithm=loaded.cfg.policy.algo,
        code=commit,
        description=f"{episodes} greedy episodes of {folder.id} at step {loaded.env_steps}, seed {seed}; {versions}",
    )
    returns = [float(episode.rewards.sum()) for episode in played]
    return RecordedDataset(path, len(played), sum(len(episode.rewards) for episode in played), float(np.mean(returns)))


def recorded_episodes(
    agent: Player, env_cfg: EnvConfig, *, episodes: int, seed: int, vectorization: Vectorization = "auto"
) -> list[RecordedEpisode]:
    """The episodes of an evaluation with this seed, in the order of their numbers."""
    with Evaluator(env_cfg, episodes=episodes, seed=seed, vectorization=vectorization) as evaluator:
        if evaluator.agents > 1:
            raise Incompatible(
                f"env.id: {env_cfg.id} has {evaluator.agents} agents, and a dataset has the steps of one; choose a run"
                " of another environment"
            )
        seeds, whole = evaluator.seeds, {}
        steps: list[list[_Row]] = [[] for _ in range(evaluator.num_envs)]
        for played, numbers in evaluator.play(agent):
            for env, rows in enumerate(steps):
                action, reward = played.actions[env].copy(), played.step.rewards[env]
                infos = {key: values[env] for key, values in played.step.infos.items()}
                rows.append(_Row(_of_env(played.observations, env), action, reward, infos))
            for env, number in numbers.items():
                ends = bool(played.step.terminated[env]), bool(played.step.truncated[env])
                whole[number] = _episode(steps[env], _of_env(played.step.successors, env), *ends, seeds[number])
            for env in played.ended.tolist():
                steps[env] = []
    return [whole[number] for number in range(episodes)]


class _Row(NamedTuple):
    observation: Array
    action: np.ndarray
    reward: np.float32
    infos: dict[str, np.float32]


def _of_env(observations: Array, env: int) -> Array:
    return each(lambda rows: rows[env].copy(), observations)


def _episode(steps: list[_Row], last: Array, terminated: bool, truncated: bool, seed: int) -> RecordedEpisode:
    ends = np.zeros((2, len(steps)), bool)
    ends[:, -1] = terminated, truncated
    return RecordedEpisode(
        observations=_stacked([*(row.observation for row in steps), last]),
        actions=np.stack([row.action for row in steps]),
        rewards=np.array([row.reward for row in steps], np.float32),
        terminated=ends[0],
        truncated=ends[1],
        seed=seed,
        infos={key: np.array([row.infos[key] for row in steps], np.float32) for key in steps[0].infos},
    )


def _stacked(observations: list[Array]) -> Array:
    dicts = [row for row in observations if isinstance(row, dict)]
    if dicts:
        return {name: np.stack([row[name] for row in dicts]) for name in dicts[-1]}
    return np.stack([row for row in observations if not isinstance(row, dict)])


def env_spec(cfg: EnvConfig) -> EnvSpec | None:
    """What Gymnasium makes this environment from; None where it is wrapped, or a world of our own."""
    spec = None if cfg.wrappers else Recipe(cfg).spec
    if spec is not None:
        spec = copy.deepcopy(spec)
        spec.kwargs = {**spec.kwargs, **cfg.kwargs}
        spec.max_episode_steps = cfg.max_episode_steps or spec.max_episode_steps
    return spec
