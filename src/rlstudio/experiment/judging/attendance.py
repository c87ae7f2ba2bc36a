"""Attendance: whether all agents that are evaluated take part, so that nobody is waited for without end."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import NamedAgents, VecEnv
from rlstudio.core.errors import ConfigError
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.judging.play import Played

LONGEST = 100_000
"""Steps after which an episode is taken to have no end, unless `env.max_episode_steps` is larger: who forgot the time
limit of an environment of their own waits minutes, not for ever."""

ABSENT = 300
"""Episodes in a row, of the others in its world, after which an agent that did not act in them never will."""


class Attendance:
    """Dims: W worlds of A agents each. Against opponents A is 1: the one who is evaluated, in some seat."""

    def __init__(self, env: VecEnv, cfg: EnvConfig, agents: int, episodes: int) -> None:
        self._env, self._id, self._episodes = env, cfg.id, episodes
        self._longest = max(LONGEST, cfg.max_episode_steps or 0)
        self._missed_WA = np.zeros((env.num_envs // agents, agents), np.int64)  # ends of others since it acted
        self._idle = 0  # steps since an episode counted

    def look(self, played: Played, *, is_counted: bool) -> None:
        """After each step; ConfigError where somebody never comes."""
        self._idle = 0 if is_counted else self._idle + 1
        agents = self._missed_WA.shape[1]
        if self._idle > self._longest:
            self._refuse("the agent that is evaluated", f"{self._longest:,} steps")
        if agents == 1 or not len(played.ended):
            return
        self._missed_WA[np.unique(played.ended // agents)] += 1
        self._missed_WA[(played.lengths > 0).reshape(-1, agents)] = 0
        if self._missed_WA.max() < ABSENT * agents:
            return
        columns = np.arange(self._missed_WA.size)
        owes = columns + columns.size * played.rounds < self._episodes
        absent = owes & (self._missed_WA.reshape(-1) >= ABSENT * agents)
        if absent.any():
            number = int(absent.argmax()) % agents
            who = self._env.agent_names[number] if isinstance(self._env, NamedAgents) else f"agent {number}"
            self._refuse(who, f"{ABSENT} episodes")

    def _refuse(self, who: str, where: str) -> None:
        raise ConfigError(
            f"env.id: {self._id}: {who} took no part in {where} of the evaluation, so nothing can be said of it; make"
            " the environment with the agents that appear in it"
        )
