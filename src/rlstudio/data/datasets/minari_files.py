"""Minari datasets: episodes on disk in the format of the Farama Foundation, read into replay and written from play.

A dataset is named by its id (`CartPole-v1/expert-v0`, in Minari's own folder) or by the folder it lies in. Nothing in
it is executed: its environment is known by its spaces, and never built from what the file says. Needs the extra
`minari`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, cast

import gymnasium
import numpy as np
import torch
from numpy.typing import ArrayLike

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Array
from rlstudio.core.errors import Incompatible, RLStudioError, UserError
from rlstudio.core.host.extras import Extra
from rlstudio.core.spaces import Box, Dict, Leaf, Spaces, describe
from rlstudio.data.datasets.episodes import RecordedEpisode, check_episode
from rlstudio.data.datasets.minari_infos import read_infos, stored_infos
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.envs.gym.spaces import convert_spaces, to_gymnasium

if TYPE_CHECKING:
    from minari import MinariDataset

MINARI = Extra("minari", "minari")
FIELD = "train.dataset"
LONGEST = 200
ID = re.compile(r"([A-Za-z0-9_]+[A-Za-z0-9_-]*/)*[A-Za-z0-9_]+[A-Za-z0-9_-]*-v[0-9]{1,6}")


class _MinariEpisode(Protocol):
    """What we read of Minari's `EpisodeData`."""

    observations: Array
    actions: np.ndarray
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray


# -- reading -----------------------------------------------------------------------------------------------------------


def read_replay(name: str, spaces: Spaces, best_share: float = 1.0) -> ReplayBuffer:
    """All rows of a dataset, episode after episode; with a smaller share only the episodes that returned most."""
    episodes = read_episodes(name, spaces)
    if best_share < 1.0:
        kept = max(1, round(best_share * len(episodes)))
        order = np.argsort([-episode.rewards.sum() for episode in episodes], kind="stable")[:kept]
        episodes = [episodes[number] for number in sorted(order)]
    replay = ReplayBuffer(spaces, sum(len(episode.rewards) for episode in episodes), num_envs=1)
    for episode in episodes:
        replay.add(_rows(episode))
    return replay


def read_episodes(name: str, spaces: Spaces) -> list[RecordedEpisode]:
    """The episodes of a dataset, if they are of this kind of world and every number in them can be learned from."""
    dataset, recorded = _opened_for(name, spaces)
    episodes = []
    with _as_user_errors(name):
        for number, data in enumerate(dataset.iterate_episodes()):
            if len(data):
                label = f"{FIELD}: {name}, episode {number}"
                infos = read_infos(data.infos or {}, spaces.infos, len(data), label)
                episode = _episode(data, recorded, getattr(dataset.observation_space, "start", 0), infos)
                check_episode(episode, recorded, label)
                episodes.append(episode)
    if not episodes:
        raise UserError(f"{FIELD}: {name} has no episodes; record or download one that has")
    return episodes


def check_there(name: str, spaces: Spaces) -> None:
    """Refuse a dataset that is missing or of another kind of world, before any of its rows is read."""
    _opened_for(name, spaces)


def _opened_for(name: str, spaces: Spaces) -> tuple[MinariDataset, Spaces]:
    """The dataset and its spaces, which are those of the environment."""
    dataset = _opened(name)
    both_spaces = SimpleNamespace(observation_space=dataset.observation_space, action_space=dataset.action_space)
    recorded = convert_spaces(both_spaces, f"{FIELD}: {name}")  # type: ignore[arg-type]
    for what in ("observation", "action"):
        theirs, ours = getattr(recorded, what), getattr(spaces, what)
        if describe(theirs) != describe(ours):
            raise Incompatible(f"{FIELD}: {name} has {what} {describe(theirs)}, the environment {describe(ours)}")
        if what == "action" and isinstance(theirs, Box) and isinstance(ours, Box) and not _same_bounds(theirs, ours):
            raise Incompatible(f"{FIELD}: {name} has actions with other bounds than the environment")
    return dataset, recorded


def _same_bounds(one: Box, other: Box) -> bool:
    return all(np.array_equal(mine, yours) for mine, yours in zip(one.bounds(), other.bounds(), strict=True))


def _opened(name: str) -> MinariDataset:
    minari = MINARI.load(FIELD, name)
    folder = next((path for path in (Path(name), Path(name, "data")) if (path / "metadata.json").is_file()), None)
    with _as_user_errors(name):
        if folder is None:
            from minari.storage import get_dataset_path

            folder = get_dataset_path(name) / "data"
            if not (folder / "metadata.json").is_file():
                raise UserError(
                    f"{FIELD}: there is no dataset {name} here; run `minari download {name}`, name the folder of one,"
                    " or record one with `rlctl record RUN --dataset NAME`"
                )
        known = minari.dataset.minari_storage.MinariStorage.read_raw_metadata(folder)
        if not {"observation_space", "action_space"} <= known.keys():  # Minari would build the env that the file names
            raise UserError(f"{FIELD}: {name} does not say its spaces; write it anew with a current Minari")
        dataset: MinariDataset = minari.MinariDataset(folder)
        return dataset


@contextmanager
def _as_user_errors(name: str) -> Iterator[None]:
    """A file that is cut off or damaged fails anywhere in Minari, h5py or Gymnasium, and each has errors of its own."""
    try:
        yield
    except RLStudioError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())
        raise UserError(
            f"{FIELD}: {name} cannot be read: {reason}; check its files, or download or record it again"
        ) from error


@np.errstate(over="ignore", invalid="ignore")  # what float32 cannot hold becomes infinite and is refused
def _episode(data: _MinariEpisode, spaces: Spaces, start: int, infos: dict[str, np.ndarray]) -> RecordedEpisode:
    """As an agent sees it; `start` is what choices are counted from in observations."""
    truncated = np.asarray(data.truncations, bool).copy()
    truncated[-1] |= not data.terminations[-1]  # cut off, whatever the file says
    recorded, space = data.observations, spaces.observation
    return RecordedEpisode(
        observations={name: _array(recorded[name], entry) for name, entry in space.items()}
        if isinstance(space, Dict)
        else _array(cast("np.ndarray", recorded), space, start),
        actions=_array(data.actions, spaces.action, getattr(spaces.action, "start", 0)),  # type: ignore[arg-type]
        rewards=np.asarray(data.rewards, np.float32),
        terminated=np.asarray(data.terminations, bool),
        truncated=truncated,
        infos=infos,
    )


def _array(values: ArrayLike, space: Leaf, start: ArrayLike = 0) -> np.ndarray:
    """Rows of a space, choices from 0."""
    rows = np.asarray(values).astype(space.dtype, copy=False).reshape(-1, *space.shape)
    return rows - np.asarray(start) if np.any(start) else rows


def _rows(episode: RecordedEpisode) -> Batch:
    observations = episode.observations
    return Batch(
        lead=1,
        observations=_column(observations, slice(None, -1)),
        next_observations=_column(observations, slice(1, None)),
        actions=_column(episode.actions, slice(None)),
        rewards=torch.from_numpy(episode.rewards),
        terminated=torch.from_numpy(episode.terminated),
        truncated=torch.from_numpy(episode.truncated),
        info={key: torch.from_numpy(column) for key, column in episode.infos.items()} or None,
    )


def _column(values: Array, part: slice) -> Column:
    if isinstance(values, dict):
        return {name: torch.from_numpy(rows[part].copy()) for name, rows in values.items()}
    return torch.from_numpy(values[part].copy())


# -- writing -----------------------------------------------------------------------------------------------------------


def check_new(name: str) -> None:
    """Before anything is played for it: a name that Minari takes, of no dataset that is there."""
    MINARI.load("--dataset", name)
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

    if not ID.fullmatch(name) or len(name) > LONGEST:
        raise UserError(f"--dataset {name!a}: use letters, digits, _ - and / with a version, as cartpole/expert-v0")
    try:
        parse_dataset_id(name)
    except ValueError as error:
        raise UserError(
            f"--dataset {name}: Minari refuses it, a namespace needs two characters; use one as in cartpole/expert-v0"
        ) from error
    if get_dataset_path(name).exists():
        raise UserError(f"--dataset {name}: is there already; take another name, or `minari delete {name}`")


def write_dataset(
    name: str,
    episodes: Sequence[RecordedEpisode],
    spaces: Spaces,
    env: gymnasium.envs.registration.EnvSpec | None,
    *,
    algorithm: str,
    code: str,
    description: str,
) -> Path:
    """A new dataset of these episodes in Minari's own folder; the place where it lies."""
    minari = MINARI.load("--dataset", name)
    from minari.data_collector import EpisodeBuffer

    start = np.asarray(getattr(spaces.action, "start", 0) or 0)
    buffers = [
        EpisodeBuffer(
            id=number,
            seed=episode.seed,
            observations=episode.observations,
            actions=episode.actions + start if start.any() else episode.actions,
            rewards=episode.rewards.tolist(),
            terminations=episode.terminated.tolist(),
            truncations=episode.truncated.tolist(),
            infos=stored_infos(episode.infos),
        )
        for number, episode in enumerate(episodes)
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no author is named, on purpose
            dataset = minari.create_dataset_from_buffers(
                dataset_id=name,
                buffer=buffers,
                env=env,
                observation_space=to_gymnasium(spaces.observation),
                action_space=to_gymnasium(spaces.action),
                algorithm_name=algorithm,
                code_permalink=code,
                description=description,
                jpeg_encoding=False,
            )
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"--dataset {name}: {' '.join(str(error).split())}") from error
    return Path(dataset.storage.data_path)
