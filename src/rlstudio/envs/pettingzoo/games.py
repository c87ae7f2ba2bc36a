"""One environment of PettingZoo and the columns of its agents.

In a `ParallelGame` all agents that are in act at once. A `CycleGame` is the same for an environment of turns that
PettingZoo offers as a parallel one: a step is one turn of each. In a `AecGame` one acts in each step: its column is
active, the others wait. What an agent is paid stands in the row in which it is paid, also while it waits; that sum is
what `last()` gives it at its next turn. Who is done takes its last step (`step(None)`) in the same row, so no reward is
lost.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.env_block import TEXTS
from rlstudio.envs.gym.rows import Misfit
from rlstudio.envs.pettingzoo.agent_spaces import STATE, TeamSpaces
from rlstudio.envs.pettingzoo.team_rows import Seat, TeamBuffers

Agent = Hashable
"""What PettingZoo calls an agent by: mostly a text."""


class Game:
    """What both kinds share: who is in, and how an agent leaves."""

    def __init__(self, env: Any, team: TeamSpaces, rows: TeamBuffers, index: int, cfg: EnvConfig) -> None:
        self.env = env
        self.seats: dict[Agent, Seat] = {
            agent: Seat(team, number, rows, index, cfg) for number, agent in enumerate(env.possible_agents)
        }
        self.present: list[Agent] = []  # agents whose episode goes on
        self.rewards, self.active = rows.rewards[index], rows.active[index]
        self.terminated, self.truncated = rows.terminated[index], rows.truncated[index]
        self._states: list[np.ndarray] = []
        if cfg.state:
            assert isinstance(rows.observations, dict)
            assert isinstance(rows.successors, dict)
            self._states = [rows.observations[STATE][index], rows.successors[STATE][index]]

    @property
    def is_over(self) -> bool:
        return not self.present

    def cut(self) -> None:
        """The time limit: for all who are still in the episode ends here."""
        for agent in self.present:
            seat = self.seats[agent]
            seat.keep_last()
            self.truncated[seat.column] = True
        self.present = []

    def pay(self, seat: Seat, reward: object) -> None:
        if type(reward) in TEXTS:
            raise Misfit(f"agent {seat.name}: reward is the text {reward!r:.50}, not a number")
        self.rewards[seat.column] += reward

    def leave(self, agent: Agent, observation: object, info: dict[str, object], ends: tuple[object, object]) -> None:
        seat = self.seats[agent]
        for name, flag in zip(("terminated", "truncated"), ends, strict=True):
            if type(flag) in TEXTS:
                raise Misfit(f"agent {seat.name}: {name} is the text {flag!r:.50}, not a bool")
        seat.leave(observation, info)
        self.terminated[seat.column], self.truncated[seat.column] = ends
        self.present.remove(agent)

    def seat_of(self, agent: Agent) -> Seat:
        if agent not in self.seats:
            raise Misfit(f"agent {agent} is not among possible_agents ({', '.join(map(str, self.seats))})")
        return self.seats[agent]

    def show_state(self) -> None:
        """The state of the whole world, to all agents alike."""
        if not self._states or (self.is_over and not self.env.agents):
            return  # few environments have one when everybody is out: it stays what it was
        state, shape = self.env.state(), self._states[0].shape[1:]
        if np.shape(state) != shape:
            raise Misfit(f"state() has shape {np.shape(state)}, its state_space says {shape}")
        for rows in self._states:
            rows[...] = state

    def empty_seats(self) -> None:
        for seat in self.seats.values():
            seat.clear()


class ParallelGame(Game):
    def reset(self, seed: int) -> None:
        observations, infos = self.env.reset(seed=seed)
        self.empty_seats()
        self.present = list(self.env.agents)
        for agent in self.present:
            if agent not in observations:
                raise Misfit(f"agent {agent}: reset() gave no observation for it")
            self.seat_of(agent).show(observations[agent], infos.get(agent, {}))
        self.show_state()

    def step(self, actions: np.ndarray) -> None:
        acting = self.present
        given = {agent: self.seats[agent].action(actions) for agent in acting}
        observations, rewards, terminated, truncated, infos = self.env.step(given)
        staying = self.env.agents
        self.present = list(acting)
        for agent in acting:
            seat = self.seats[agent]
            flags = ("terminated", terminated), ("truncated", truncated)
            for name, part in (("observation", observations), ("reward", rewards), *flags):
                if agent not in part:
                    raise Misfit(f"agent {agent}: step() gave no {name} for it")
            info = infos.get(agent, {})
            self.active[seat.column] = True
            self.pay(seat, rewards[agent])
            seat.note(info)
            if terminated[agent] or truncated[agent]:
                self.leave(agent, observations[agent], info, (terminated[agent], truncated[agent]))
            elif agent not in staying:
                raise Misfit(f"agent {agent}: left `agents` without being terminated or truncated")
            else:
                seat.show(observations[agent], info)
        if len(self.present) != len(staying):
            self._join(given, observations, infos, staying)
        self.show_state()

    def _join(
        self,
        given: dict[Agent, object],
        observations: dict[Agent, object],
        infos: dict[Agent, dict[str, object]],
        staying: list[Agent],
    ) -> None:
        """Agents that are new act from the next step on. Where all are out the episode is over, whoever is listed."""
        if self.is_over and all(agent in given for agent in staying):
            return
        for agent in staying:
            if agent in self.present:
                continue
            if agent in given:
                raise Misfit(f"agent {agent}: is terminated or truncated, but stays in `agents`; take it out")
            self.seat_of(agent).show(observations[agent], infos.get(agent, {}))
            self.present.append(agent)


class CycleGame(Game):
    """An AECEnv whose agents act one after the other without seeing each other's actions: what PettingZoo's
    `aec_to_parallel` makes of it, without the observations that it takes before every turn and throws away (a fifth of
    the time of a step of simple_spread)."""

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)
        self.empty_seats()
        self.present = list(self.env.agents)
        self._look()
        self.show_state()

    def step(self, actions: np.ndarray) -> None:
        env, acting = self.env, list(self.present)
        paid = dict.fromkeys(acting, 0.0)
        for agent in acting:
            if env.agent_selection != agent:
                raise Misfit(f"agent {agent}: it is the turn of {env.agent_selection}, out of the order of `agents`")
            env.step(self.seats[agent].action(actions))
            rewards = env.rewards
            for other in env.agents:
                paid[other] += rewards[other]
        terminated, truncated, infos = env.terminations, env.truncations, env.infos
        for agent in acting:
            seat = self.seats[agent]
            self.active[seat.column] = True
            self.pay(seat, paid[agent])
            seat.note(infos[agent])
            if terminated[agent] or truncated[agent]:
                self.leave(agent, env.observe(agent), infos[agent], (terminated[agent], truncated[agent]))
        while env.agents and (terminated[env.agent_selection] or truncated[env.agent_selection]):
            env.step(None)
            terminated, truncated = env.terminations, env.truncations
        self._look()
        self.show_state()

    def _look(self) -> None:
        env = self.env
        for agent in env.agents:
            if agent not in self.present:
                self.present.append(agent)
            self.seat_of(agent).show(env.observe(agent), env.infos[agent])


class AecGame(Game):
    """An AECEnv, one turn per step."""

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)
        self.empty_seats()
        self._paid: dict[Agent, float] = {}
        self.present = list(self.env.agents)
        for agent in self.present:
            self.seat_of(agent)
        self._paid.update(self.env._cumulative_rewards)  # before the first action, so of none
        self._look()

    def step(self, actions: np.ndarray) -> None:
        env = self.env
        agent = env.agent_selection
        seat = self.seat_of(agent)
        self.active[seat.column] = True
        self._paid[agent] = 0.0  # what it was paid for its last action is taken from the count when it acts again
        env.step(seat.action(actions))
        self._collect_pay()
        if env.agents and self._is_done(env.agent_selection):
            self._bury()
        if env.agents:
            self._look()
        elif self.present:
            raise Misfit(f"agent {self.present[0]}: left `agents` before it took its last step, step(None)")
        self.show_state()

    def _is_done(self, agent: Agent) -> bool:
        self.seat_of(agent)  # whose turn it is must be somebody
        return bool(self.env.terminations[agent] or self.env.truncations[agent])

    def _collect_pay(self) -> None:
        """What each was paid since this was asked last: `last()` gives an agent the sum since its own last action."""
        sums = self.env._cumulative_rewards
        for agent in self.env.agents:
            more = sums[agent] - self._paid.get(agent, 0.0)
            if more:
                self.pay(self.seat_of(agent), more)
                self._paid[agent] = sums[agent]

    def _bury(self) -> None:
        """The steps of those who are done, as PettingZoo asks for them: the action is None, and they are gone then."""
        env = self.env
        while env.agents and self._is_done(env.agent_selection):
            agent = env.agent_selection
            observation, _, terminated, truncated, info = env.last()
            self.seats[agent].note(info)
            self.leave(agent, observation, info, (terminated, truncated))
            env.step(None)
            if agent in env.agents:
                raise Misfit(f"agent {agent}: is terminated or truncated, but step(None) leaves it in `agents`")
        self._collect_pay()

    def _look(self) -> None:
        """What those who are in see now; whose turn it is must have something to choose."""
        env, infos = self.env, self.env.infos
        for agent in env.agents:
            seat = self.seat_of(agent)
            if agent not in self.present:
                self.present.append(agent)  # it has joined
            observation, info = env.observe(agent), infos.get(agent, {})
            if agent == env.agent_selection:
                seat.note(info)
                seat.show(observation, info)
            else:
                seat.wait(observation, info)
