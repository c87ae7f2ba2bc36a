"""PettingZoo environments in this process, as a vector: a column for each possible agent of each environment.

Every episode is seeded by (seed, env, episode); a position is found again by replaying the actions of the open episode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import Array, State, Step
from rlstudio.envs.gym.replay.first_steps import first_difference
from rlstudio.envs.gym.replay.replay_log import Journal
from rlstudio.envs.pettingzoo.probe import used_differs
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe
from rlstudio.envs.pettingzoo.team_blocks import TeamBlocks
from rlstudio.envs.seeds import episode_name


class PettingZooVecEnv:
    """`num_envs` counts columns: agent a of environment e is column e * agents + a. The arrays of a Step are reused by
    the next one; `exact` turns into a reason when a replay did not match."""

    vectorization = "sync"
    restart_reasons = None

    def __init__(self, recipe: PettingZooRecipe, num_envs: int, seed: int) -> None:
        team = recipe.team
        self.spaces = team.together
        self.agent_names, self.agent_spaces = team.names, team.spaces
        self.agents = len(team.names)
        self.num_envs = num_envs * self.agents
        self.exact: str | None = None
        blocks = TeamBlocks(recipe)
        self.rows = rows = blocks.rows(self.spaces, num_envs)
        rebuild = used_differs(recipe)
        self._block = blocks.block(self.spaces, rows, seed, rebuild=rebuild)
        self._made_from = (blocks, self.spaces, seed, rebuild)
        self._journal = Journal(rows)
        self._quiet = rows.quiet_step()

    def reset(self) -> Array:
        self._block.reset()
        self._journal.restart()
        return self.rows.in_columns

    def step(self, actions: np.ndarray) -> Step:
        joint = actions.reshape(-1, self.agents, *actions.shape[1:])
        self._block.step(joint)
        step, ended = self.rows.outcome(self._quiet)
        self._journal.record(joint, ended)
        return step

    def describe_episode(self, env: int, ago: int = 0) -> str:
        world = env // self.agents
        return episode_name(self._made_from[2], world, int(self._journal.episodes[world]) - ago)

    @property
    def restarted(self) -> Sequence[int]:
        return columns_of(self._journal.restarted, self.agents)

    def position(self) -> State:
        """The first one after some steps also replays them: `exact` then says whether the env repeats itself."""
        steps = self._journal.take_first_steps()
        if steps is not None:
            self.exact = first_difference(steps, *self._made_from) or self.exact
        return self._journal.position()

    def seek(self, position: State) -> Array:
        journal = self._journal
        journal.adopt(position)
        self.exact = None
        for index in range(journal.num_envs):
            digest = self._block.place(index, int(journal.episodes[index]), journal.actions_of(index))
            self.exact = journal.settle(index, digest) or self.exact
        return self.rows.in_columns

    def close(self) -> None:
        self._block.close()


def columns_of(envs: Sequence[int], agents: int) -> list[int]:
    """The columns of all agents of these environments."""
    return [env * agents + agent for env in envs for agent in range(agents)]
