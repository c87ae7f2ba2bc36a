"""Is this env of many agents fit to train on? What `envs/check.py` asks of one agent's, asked of all columns."""

from __future__ import annotations

import time
from itertools import count

import numpy as np

from rlstudio.core.errors import RLStudioError
from rlstudio.envs.check_play import Amount, ObservedEntry, entries_of
from rlstudio.envs.check_report import WORN, EnvReport
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import PROBE_SEEDS
from rlstudio.envs.pettingzoo.agent_spaces import teams
from rlstudio.envs.pettingzoo.games import AecGame
from rlstudio.envs.pettingzoo.probe import episode_digests, joint_actions, used_differs
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe
from rlstudio.envs.pettingzoo.sync import PettingZooVecEnv
from rlstudio.envs.pettingzoo.team_block import TeamBlock
from rlstudio.envs.pettingzoo.team_rows import TeamBuffers

BLOCK = 256  # actions that are drawn at once


def check_team(cfg: EnvConfig, amount: Amount, report: EnvReport) -> None:
    """Whatever it does wrong becomes a finding."""
    recipe = PettingZooRecipe(cfg)
    play = TeamPlay(recipe, report)
    try:
        play.run(amount)
        agents = play.describe_agents()
    except RLStudioError as error:
        report.add("error", str(error))
        return
    finally:
        play.close()
    if not play.report.episodes and recipe.limit is None:
        text = f"no episode ended within {report.steps:,} steps and there is no env.max_episode_steps"
        report.add("warning", text, "endless")
    report.add("info", agents)
    first, second = (episode_digests(recipe, fresh=True, steps=amount.compared) for _ in range(2))
    if first != second:
        text = f"two fresh envs with seed {PROBE_SEEDS[0]} and equal actions differ: resume cannot be exact"
        report.add("error", text, "unseeded")
    elif used_differs(recipe):
        report.add("warning", WORN, "worn")
    _check_replay(recipe, amount.compared, report)


class TeamPlay:
    """One object, episode after episode, with random actions that the masks allow."""

    def __init__(self, recipe: PettingZooRecipe, report: EnvReport) -> None:
        self.report = report
        self._recipe, team = recipe, recipe.team
        self._rows = TeamBuffers(team.together, 1, len(team.names))
        self._block = TeamBlock(recipe, self._rows, PROBE_SEEDS[0])
        self._entries = [self._entries_of(number) for number in range(len(team.names))]
        self._noted: set[str] = set()

    def _entries_of(self, number: int) -> list[ObservedEntry]:
        """Of one agent's column, by its own spaces."""
        space, every = self._recipe.team.together.observation, self._rows.in_columns
        own = slice(number, number + 1)
        column = {key: rows[own] for key, rows in every.items()} if isinstance(every, dict) else every[own]
        return list(entries_of(space, column))

    def run(self, amount: Amount) -> None:
        began, report = time.monotonic(), self.report
        self._block.reset()
        self._look()
        for block in count():
            for actions in joint_actions(self._recipe, self._rows, PROBE_SEEDS[0] + block, BLOCK):
                is_enough = report.episodes >= amount.episodes and report.steps >= amount.steps
                report.seconds = time.monotonic() - began
                if is_enough or report.steps >= amount.most_steps or report.seconds >= amount.seconds:
                    return
                self._block.step(actions)
                report.steps += 1
                report.episodes += int(self._rows.over[0])
                if not np.isfinite(self._rows.rewards).all():
                    self._note("reward", "error", f"a reward is not finite ({self._rows.rewards[0].tolist()})")
                self._look()

    def _look(self) -> None:
        game = self._block.games[0]
        assert game is not None
        for agent in game.present:
            seat = game.seats[agent]
            for entry in self._entries[seat.column]:
                if (severity := entry.problem()) is not None:
                    self._note(f"{entry.name} {severity}", severity, f"agent {seat.name}: {entry.describe(severity)}")

    def _note(self, kind: str, severity: str, text: str) -> None:
        """The first of each kind."""
        if kind not in self._noted:
            self._noted.add(kind)
            self.report.add(severity, f"{text}; step {self.report.steps}")  # type: ignore[arg-type]

    def describe_agents(self) -> str:
        team = self._recipe.team
        how = "take turns" if isinstance(self._block.games[0], AecGame) else "act at once"
        by_team = "; ".join(f"{name}: {len(numbers)}" for name, numbers in teams(team).items())
        return f"{len(team.names)} agents that {how} ({by_team})"

    def close(self) -> None:
        self._block.close()


def _check_replay(recipe: PettingZooRecipe, steps: int, report: EnvReport) -> None:
    """Leave an episode in the middle and find the place again in another object."""
    first, second = (PettingZooVecEnv(recipe, 1, recipe.cfg.seed) for _ in range(2))
    try:
        first.reset()
        for actions in joint_actions(recipe, first.rows, PROBE_SEEDS[0], steps):
            first.step(actions[0])
        second.seek(first.position())
        if second.exact:
            report.add("error", f"replaying an episode does not lead to the same place: {second.exact}", "replay")
    finally:
        first.close()
        second.close()
