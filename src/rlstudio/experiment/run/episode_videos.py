"""Films of the best and the worst episode of the newest evaluations of a run, among its artifacts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from rlstudio.core.contracts import Player
from rlstudio.core.errors import message_of
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.evaluate import Evaluation
from rlstudio.experiment.judging.video import film_seeds
from rlstudio.experiment.run.signals import Interrupted
from rlstudio.storage.folder import Folder

PLACE = "artifacts/videos"


class EpisodeVideos:
    """An environment that cannot be filmed is recorded once, as the event `video_failed`; the run goes on."""

    def __init__(self, folder: RunFolder, env_cfg: EnvConfig, keep: int, poll: Callable[[], None]) -> None:
        self._folder, self._env_cfg, self._keep, self._poll = folder, env_cfg, keep, poll

    def film(self, agent: Player, evaluation: Evaluation, params: Sequence[Mapping[str, float]], epoch: int) -> None:
        """Where films are wanted. Drawing may use the global generators, which the run goes on with as they were."""
        if not self._keep:
            return
        files, stem = Folder(self._folder.path), f"epoch-{epoch:06d}{'-final' * (evaluation.purpose == 'report')}"
        if files.kind(PLACE) is None:
            files.make(PLACE)
        for name, number in (("best", evaluation.best), ("worst", evaluation.worst)):
            path = self._folder.path / PLACE / f"{stem}-{name}.mp4"
            where = {"seeds": [evaluation.seeds[number]], "params": [params[number]]}
            try:
                with _generators_kept():
                    film_seeds(agent, self._env_cfg, path, **where, poll=self._poll)  # type: ignore[arg-type]
            except Interrupted:
                raise
            except Exception as error:  # whatever drawing needs and lacks
                self._keep = 0
                self._folder.event("video_failed", epoch=epoch, reason=message_of(error))
                return
        stems = sorted({name.rpartition("-")[0] for name in files.names(PLACE)}, reverse=True)
        for old in stems[self._keep :]:
            for name in files.names(PLACE):
                if name.rpartition("-")[0] == old:
                    files.delete(f"{PLACE}/{name}")


@contextmanager
def _generators_kept() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
