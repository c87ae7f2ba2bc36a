"""Evaluation: what the greedy agent earns on environments and seeds of its own. Training never notices.

Episode k is always the same episode: it has its own seed, a pure function of (seed, purpose, k), whatever was evaluated
before. Environment i of B plays the episodes i, i + B, i + 2B, ... and only those are counted; taking the first ones to
finish would prefer short episodes. `best` is chosen on the seeds of one purpose and reported on those of the other.

Of a world with several agents each of them has an episode, with what it is paid from its first action on: number k is
of agent k modulo their number. Where they are of several teams, each team's returns are reported too. Against opponents
(`eval.opponents`) one agent is evaluated: the episodes go through the opponents, and through the seats.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil, isnan, nan
from types import TracebackType
from typing import Literal

import numpy as np

from rlstudio.core.contracts import Array, Player, State, VecEnv
from rlstudio.core.errors import ConfigError, EnvFault
from rlstudio.core.rng import Rng
from rlstudio.envs.config import EnvConfig, Vectorization
from rlstudio.envs.make import agents_of, make_vec_env, real_vectorization
from rlstudio.envs.named_players import rates_against, seated_against
from rlstudio.envs.params.draw import draw_from, sample
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.experiment.judging.attendance import LONGEST, Attendance
from rlstudio.experiment.judging.play import Played, play
from rlstudio.experiment.judging.teams import ByTeam, returns_by_team, team_means
from rlstudio.ops.statistics import Summary, mean_given, summarize

Purpose = Literal["selection", "report"]

WIDTH = 16
"""Environments that step together: enough to share the cost of acting, few enough to start quickly."""


@dataclass(frozen=True)
class Evaluation:
    """Episodes in the order of their numbers. `seeds[k]` given to `reset` replays episode k in a Gymnasium env, with
    the parameters `Evaluator.params[k]` where `eval.params` draws some. `infos` has what each episode gave last for
    each key of `env.infos`, NaN where it gave no number."""

    env_id: str
    purpose: Purpose
    vectorization: str
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]
    summary: Summary
    infos: dict[str, tuple[float, ...]] = field(default_factory=dict)
    teams: ByTeam = field(default_factory=dict)
    versus: dict[str, float] = field(default_factory=dict)
    """Against opponents: shares of games won, drawn and lost, `random/win_rate`, and from each seat,
    `random/seat_0/win_rate`."""

    @property
    def best(self) -> int:
        """The number of the episode with the highest return."""
        return max(range(len(self.returns)), key=self.returns.__getitem__)

    @property
    def worst(self) -> int:
        """The number of the episode with the lowest return."""
        return min(range(len(self.returns)), key=self.returns.__getitem__)

    def metrics(self) -> dict[str, float]:
        """What a run logs: `eval/return_mean`, `eval/return_iqm`, ..., `eval/length_mean`, and `eval/KEY` for each key
        of `env.infos`, the mean over the episodes that gave a number."""
        numbers = self.summary.to_json()
        episodes = numbers.pop("n")
        lengths = sum(self.lengths) / len(self.lengths)
        returns = {f"eval/return_{name}": value for name, value in numbers.items()}
        infos = {f"eval/{key}": mean_given(values) for key, values in self.infos.items()}
        teams = {f"eval/{name}": value for name, value in team_means(self.teams).items()}
        versus = {f"eval/{name}": share for name, share in self.versus.items()}
        played = {"eval/length_mean": lengths, "eval/episodes": float(episodes)}
        return {**returns, **played, **infos, **teams, **versus}

    def to_json(self) -> dict[str, object]:
        """`teams` and `versus` only where there are some."""
        return {name: value for name, value in asdict(self).items() if name not in ("teams", "versus") or value}


def evaluate(
    agent: Player,
    env_cfg: EnvConfig,
    *,
    episodes: int,
    seed: int,
    purpose: Purpose = "report",
    vectorization: Vectorization = "auto",
    opponents: Sequence[str] = (),
) -> Evaluation:
    """One evaluation on environments made for it."""
    with Evaluator(
        env_cfg, episodes=episodes, seed=seed, purpose=purpose, vectorization=vectorization, opponents=opponents
    ) as evaluator:
        return evaluator.run(agent)


def with_teams(evaluation: Evaluation, agent: Player) -> Evaluation:
    """With what each team earned, where the agent that played it was hidden by another player."""
    return replace(evaluation, teams=returns_by_team(evaluation.returns, agent))


class Evaluator:
    """Evaluates as often as asked on the same episodes; keeps its environments between calls, which changes no result.

    `auto` means the real Gymnasium environment wherever there is one, also for a world that trains on our own.
    """

    def __init__(
        self,
        env_cfg: EnvConfig,
        *,
        episodes: int,
        seed: int,
        purpose: Purpose = "report",
        vectorization: Vectorization = "auto",
        opponents: Sequence[str] = (),
        poll: Callable[[], None] = lambda: None,
        team: str | None = None,
    ) -> None:
        """`poll` is called after every step, and ends the evaluation by raising. `team`: the one that the summary is
        of; None: all agents."""
        if episodes < 1:
            raise ConfigError(f"eval.episodes: must be at least 1, got {episodes}")
        self.env_cfg = env_cfg
        self.episodes = episodes
        self.purpose = purpose
        self._team = team
        self._poll = poll
        self.vectorization = real_vectorization(env_cfg) if vectorization == "auto" else vectorization
        self.opponents = tuple(opponents)
        self.seats = agents_of(env_cfg, self.vectorization)
        self.agents = 1 if opponents else self.seats
        # No more environments than the rounds need: those without an episode left would still cost their steps.
        self._worlds = ceil(ceil(episodes / ceil(episodes / WIDTH)) / self.agents)
        if self.vectorization == "vector":  # which seeds first episodes only: each plays one, so it stays the same
            self._worlds = episodes
        self.num_envs = self._worlds * self.agents
        self._rng = Rng(seed).fork("eval").fork(purpose)
        self._env_seed = int(self._rng.fork("envs").generator().integers(2**32))
        self._env: VecEnv | None = None
        self._start: State = {}

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each episode."""
        noise = EpisodeNoise(self._env_seed, self._worlds, size=1)
        places = map(self._place, range(self.episodes))
        return tuple(noise.seed(env // self.agents, episode) for env, episode in places)

    @property
    def params(self) -> tuple[dict[str, float], ...]:
        """What is drawn for the parameters of each episode; nothing where none are."""
        draw = draw_from(self.env_cfg.parameters)
        if draw is None:
            return ({},) * self.episodes
        envs, episodes = np.array([self._place(number) for number in range(self.episodes)]).T
        drawn = sample(draw, self._env_seed, envs // self.agents, episodes)[1]
        return tuple({name: float(values[k]) for name, values in drawn.items()} for k in range(self.episodes))

    def run(self, agent: Player) -> Evaluation:
        """Play every episode once, greedily."""
        returns, lengths, infos = self._scores(agent)
        teams = returns_by_team(returns.tolist(), agent)
        summarized = returns if self._team is None else np.concatenate([*map(np.asarray, teams[self._team].values())])
        return Evaluation(
            env_id=self.env_cfg.id,
            purpose=self.purpose,
            vectorization=self.vectorization,
            returns=tuple(returns.tolist()),
            lengths=tuple(lengths.tolist()),
            seeds=self.seeds,
            summary=summarize(summarized, self._rng.fork("bootstrap").generator()),
            # One NaN object for all: evaluations of the same episodes then compare as equal.
            infos={key: tuple(nan if isnan(x) else x for x in values.tolist()) for key, values in infos.items()},
            teams=teams,
            versus=rates_against(self.opponents, self.seats, returns) if self.opponents else {},
        )

    def play(self, agent: Player) -> Iterator[tuple[Played, dict[int, int]]]:
        """Step by step until every episode was played. Beside each step, those of the episodes that ended with it:
        environment -> number; an environment may be beyond its last, which does not count."""
        left = self.episodes
        env, observations = self._restart()
        attendance = Attendance(env, self.env_cfg, self.agents, self.episodes)
        for played in play(agent, env, observations):
            if played.lengths.max() > max(LONGEST, self.env_cfg.max_episode_steps or 0):
                raise ConfigError(
                    f"env.max_episode_steps: an episode of {self.env_cfg.id} did not end within {LONGEST:,} steps of"
                    " the evaluation; set a limit, for example env.max_episode_steps=1000"
                )
            numbers = played.ended + self.num_envs * played.rounds[played.ended]
            ended = zip(played.ended.tolist(), numbers.tolist(), strict=True)
            counted = {env: number for env, number in ended if number < self.episodes}
            attendance.look(played, is_counted=bool(counted))
            yield played, counted
            left -= len(counted)
            if not left:
                return
            self._poll()

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _place(self, number: int) -> tuple[int, int]:
        """Which environment plays this episode, and which of its episodes it is (from 0)."""
        return number % self.num_envs, number // self.num_envs

    def _restart(self) -> tuple[VecEnv, Array]:
        """The environments at the start of their first episodes, as if they were new."""
        if self._env is not None and self._env.exact is not None:
            self.close()  # cannot go back exactly
        if self._env is None:
            self._env = make_vec_env(
                self.env_cfg, num_envs=self._worlds, seed=self._env_seed, vectorization=self.vectorization
            )
            if self.opponents:
                self._env = seated_against(self._env, self.env_cfg, self.opponents, self._env_seed)
            observations = self._env.reset()
            self._start = copy.deepcopy(self._env.position())
            return self._env, observations
        return self._env, self._env.seek(self._start)

    def _scores(self, agent: Player) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """The return and the length of each episode, and what it gave last for each key of `env.infos`."""
        returns, lengths = np.zeros(self.episodes), np.zeros(self.episodes, np.int64)
        infos = {key: np.full(self.episodes, np.nan) for key in self.env_cfg.infos}
        newest = {key: np.full(self.num_envs, np.nan) for key in infos}
        totals = np.zeros(self.num_envs)
        for played, numbers in self.play(agent):
            totals += played.step.rewards * (played.lengths > 0)
            for key, values in played.step.infos.items():
                np.copyto(newest[key], values, where=~np.isnan(values))
            for env, number in numbers.items():
                returns[number], lengths[number] = totals[env], played.lengths[env]
                for key, values in newest.items():
                    infos[key][number] = values[env]
            totals[played.ended] = 0.0
            for values in newest.values():
                values[played.ended] = np.nan
            if numbers:
                self._check(returns, played.actions)
        return returns, lengths, infos

    def _check(self, returns: np.ndarray, actions: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(returns))
        if len(bad):
            number = int(bad[0])
            env, _ = self._place(number)
            raise EnvFault(
                f"{self.env_cfg.id}: evaluation episode {number} (env {env}, seed {self.seeds[number]}) returned"
                f" {returns[number]}; last action {actions[env].tolist()}; `rlctl check` finds the step"
            )
