"""PettingZoo environments in worker processes (`vectorization: async`), by the workers that Gymnasium's have."""

from __future__ import annotations

from collections.abc import Sequence

from rlstudio.core.contracts import State
from rlstudio.core.spaces import Spaces
from rlstudio.envs.gym.blocks import Blocks, EnvRecipe
from rlstudio.envs.gym.process_env import ProcessVecEnv
from rlstudio.envs.pettingzoo.agent_spaces import TeamSpaces
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe
from rlstudio.envs.pettingzoo.sync import columns_of
from rlstudio.envs.pettingzoo.team_blocks import TEAM, TeamBlocks


class PettingZooProcessVecEnv(ProcessVecEnv):
    """The same columns as in one process, bit for bit."""

    agent_names: tuple[str, ...]
    agent_spaces: tuple[Spaces, ...]

    def _blocks_of(self, recipe: EnvRecipe) -> Blocks:
        assert isinstance(recipe, PettingZooRecipe)
        return TeamBlocks(recipe)

    def _adopt_facts(self, facts: State) -> None:
        """The agents, which a worker found out: an env that crashes does no harm there."""
        team = TeamSpaces.from_json(facts[TEAM])
        assert isinstance(self._recipe, PettingZooRecipe)
        self._recipe.team = team
        self.agent_names, self.agent_spaces = team.names, team.spaces
        self.agents = len(team.names)
        self.num_envs = self._worlds * self.agents

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return super().describe_episode(env // self.agents, ago)

    @property
    def restarted(self) -> Sequence[int]:
        return columns_of(self._journal.restarted, self.agents)
