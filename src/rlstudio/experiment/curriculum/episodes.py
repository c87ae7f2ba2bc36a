"""What a curriculum is updated from: the episodes that ended, and what is asked of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import NamedTuple

from rlstudio.experiment.curriculum.sections import SUCCESS, SUCCESS_KEY, SuccessConfig


class Episodes(NamedTuple):
    """Episodes since the last update, in the order in which they ended, an entry each."""

    returns: Sequence[float] = ()  # NaN of an episode with a reward that cannot be used
    lengths: Sequence[int] = ()
    infos: Mapping[str, Sequence[float]] = {}
    components: Sequence[int] = ()  # of the Draw that the episode was drawn from,
    versions: Sequence[int] = ()  # and the version of that Draw


class Measure:
    """One number per episode, by the name of a metric; NaN where the episode has none."""

    def __init__(self, success: SuccessConfig | None = None) -> None:
        self._success = success

    def __call__(self, metric: str, episodes: Episodes) -> list[float]:
        if metric == SUCCESS:
            return self._successes(episodes)
        if metric == "return":
            return list(episodes.returns)
        if metric == "length":
            return [float(length) for length in episodes.lengths]
        return list(episodes.infos[metric])

    def _successes(self, episodes: Episodes) -> list[float]:
        if self._success is None:
            return list(episodes.infos[SUCCESS_KEY])
        values, wanted = self(self._success.metric, episodes), self._success.at_least
        return [nan if isnan(value) else float(value >= wanted) for value in values]
