"""What random actions in the environments say about the settings of a run: scales of observations and rewards, ends of
episodes, bounds of actions, the time of a step."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log10

import numpy as np

from rlstudio.core.spaces import Box, Spaces
from rlstudio.data.collect.reward_scale import is_wanted
from rlstudio.experiment.config.algorithm import algorithm, train_section
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.doctor.advice import Advice
from rlstudio.experiment.doctor.forecast import SLOW_STEP
from rlstudio.experiment.doctor.machine import Machine
from rlstudio.experiment.doctor.random_play import Experience
from rlstudio.models.networks.encoder import settled

LARGE_OBSERVATION, SMALL_OBSERVATION = 30.0, 1e-3
"""Root mean squares of an entry beyond which a network that expects numbers around 1 learns badly. HalfCheetah's
velocities are at 10, MountainCar's at 0.02."""

LARGE_REWARD, SMALL_REWARD = 100.0, 1e-4
"""The same of rewards. Pendulum pays around -6, LunarLander 100 once in an episode."""

SAME_LENGTH, LONG_ENOUGH, SHARE_AT_LIMIT = 3, 20, 0.3
"""So many terminated episodes of exactly the longest length, which has so many steps, and such a share of all of them:
a limit, not chance."""

SHORT_HORIZON = 60
"""Episodes that are longer than so many horizons 1 / (1 - gamma) end beyond what a value can see."""

STEPS_BEFORE_TIMEOUT = 5
WIDE_ACTIONS, NARROW_ACTIONS = 10.0, 0.1
"""Bounds of actions for a policy whose noise begins with a standard deviation of 1."""

MOST_OUTSIDE = 0.01
"""Share of rewards outside `guardrails.reward_range`: `guardrails.max_bad_rows` by default."""


def env_rules(cfg: ExperimentConfig, spaces: Spaces, met: Experience, machine: Machine) -> Iterator[Advice]:
    yield from _observations(cfg, spaces, met)
    yield from _rewards(cfg, spaces, met)
    yield from _ends(cfg, met)
    yield from _actions(cfg, spaces)
    yield from _evaluations(cfg, met)
    yield from _time(cfg, met, machine)


def learns_values(cfg: ExperimentConfig) -> bool:
    """Whether the algorithm learns what comes later from what comes next: by default it discounts. What plans keeps
    statistics of its own, and what imitates looks at no reward."""
    section = train_section(cfg.policy.algo)
    imitates = "dataset" in section.model_fields
    return section.model_fields["gamma"].default < 1 and not section.acting_fields and not imitates


def _observations(cfg: ExperimentConfig, spaces: Spaces, met: Experience) -> Iterator[Advice]:
    for entry in met.entries:
        if entry.rows > 1 and not entry.changes and met.longest > 1:
            name = f"observation {entry.name!r}" if entry.name else "the observation"
            text = f"{name} was the same in all {entry.rows:,} steps: a policy cannot see what its actions do"
            yield Advice("warning", "observation_constant", text, "return what changes, or leave the entry out")
    if settled(cfg.policy.network, spaces).normalize_observations or train_section(cfg.policy.algo).acting_fields:
        return
    for entry in met.entries:
        largest = float(entry.rms.max(initial=0.0))
        name = f"observation {entry.name!r}" if entry.name else "the observation"
        if largest > LARGE_OBSERVATION:
            where = f"{name}[{int(entry.rms.argmax())}] is around {largest:,.0f}" if len(entry.rms) > 1 else name
            text = f"{where}; networks learn from numbers around 1, and nothing here scales them"
            yield Advice("warning", "observation_scale", text, _scaling(cfg, entry.bounded))
        elif 0 < largest < SMALL_OBSERVATION:
            text = f"{name} is nowhere larger than about {largest:.1g}; a network sees no difference in it"
            yield Advice("warning", "observation_tiny", text, _scaling(cfg, entry.bounded))


def _scaling(cfg: ExperimentConfig, bounded: bool) -> str:
    if not algorithm(cfg.policy.algo).off_policy:
        return "policy.network.normalize_observations=true"
    if bounded:  # algorithms with a replay keep no running statistics
        return "env.wrappers='[{RescaleObservation: {min_obs: -1.0, max_obs: 1.0}}]'"
    return "divide it in the environment, and give its observation_space bounds"


def _rewards(cfg: ExperimentConfig, spaces: Spaces, met: Experience) -> Iterator[Advice]:
    rewards = met.all_rewards()
    if not len(rewards):
        return
    if (allowed := cfg.guardrails.reward_range) is not None:
        outside = float(((rewards < allowed[0]) | (rewards > allowed[1])).mean())
        if outside > MOST_OUTSIDE:
            low, high = min(rewards.min(), allowed[0]), max(rewards.max(), allowed[1])
            text = f"{outside:.0%} of rewards are outside guardrails.reward_range {list(allowed)}: the run would fail"
            yield Advice("error", "reward_range", text, f"guardrails.reward_range='[{low:g}, {high:g}]'")
    if not learns_values(cfg):
        return
    limit = cfg.guardrails.reward_clip
    if limit is not None:
        clipped = float((np.abs(rewards) > limit).mean())
        if clipped > 0.9 and len(np.unique(np.abs(rewards))) > 2:
            text = f"guardrails.reward_clip {limit:g} cuts {clipped:.0%} of rewards to the same number"
            yield Advice("warning", "reward_clip", text, f"guardrails.reward_clip={np.abs(rewards).max():.3g}")
        rewards = np.clip(rewards, -limit, limit)
    scaled = is_wanted(getattr(cfg.train, "normalize_rewards", False), spaces.action)
    rms = float(np.sqrt(np.square(rewards).mean()))
    if not scaled and rms > LARGE_REWARD:
        text = f"rewards are around {rms:,.0f} a step; values and losses of that size make every step too large"
        yield Advice("warning", "reward_scale", text, _reward_remedy(cfg, rms))
    elif not scaled and 0 < rms < SMALL_REWARD:
        text = f"rewards are around {rms:.1g} a step; nothing would be learned from errors of that size"
        yield Advice("warning", "reward_tiny", text, _reward_remedy(cfg, rms))


def _reward_remedy(cfg: ExperimentConfig, rms: float) -> str:
    if hasattr(cfg.train, "normalize_rewards"):
        return "train.normalize_rewards=true"
    power = round(log10(rms))
    return f"{'divide' if power > 0 else 'multiply'} the reward by 1e{abs(power)} in the environment"


def _ends(cfg: ExperimentConfig, met: Experience) -> Iterator[Advice]:
    lengths = met.lengths
    longest = max(lengths, default=0)
    at_limit = [length for length in met.terminated if length == longest]
    is_limit = len(at_limit) >= max(SAME_LENGTH, SHARE_AT_LIMIT * len(lengths)) and longest not in met.truncated
    if met.agents == 1 and longest >= LONG_ENOUGH and is_limit and learns_values(cfg):
        text = (
            f"{len(at_limit)} of {len(lengths)} episodes end by terminated=True after exactly {longest} steps, as at a"
            " time limit: values would learn that the world ends there"
        )
        remedy = f"return truncated=True there, or leave the limit out and set env.max_episode_steps={longest}"
        yield Advice("warning", "time_limit_as_termination", text, remedy)
    gamma = cfg.train.gamma
    if not learns_values(cfg):
        return
    goes_on = bool(met.truncated) or not lengths
    if gamma >= 0.99999 and goes_on and met.agents == 1:
        text = "train.gamma 1 where episodes do not end by themselves: the value of a state has no bound"
        yield Advice("warning", "no_discount", text, "train.gamma=0.99")
    elif gamma < 1 and met.mean_length is not None and met.mean_length > SHORT_HORIZON / (1 - gamma):
        text = f"train.gamma {gamma:g} sees {1 / (1 - gamma):.1f} steps ahead; episodes have {met.mean_length:.0f}"
        yield Advice("warning", "short_horizon", text, "train.gamma=0.99")


def _actions(cfg: ExperimentConfig, spaces: Spaces) -> Iterator[Advice]:
    """For policies that draw around a mean near 0 with a standard deviation near 1, whatever the bounds are."""
    action, chosen = spaces.action, algorithm(cfg.policy.algo)
    if not isinstance(action, Box) or chosen.off_policy or not learns_values(cfg) or not action.bounded:
        return
    low, high = action.bounds()
    reach, width = float(np.maximum(np.abs(low), np.abs(high)).max()), float((high - low).min())
    if reach > WIDE_ACTIONS or width < NARROW_ACTIONS:
        text = f"actions from {low.min():g} to {high.max():g}: {cfg.policy.algo} begins with actions around 0 +- 1"
        remedy = "env.wrappers='[{RescaleAction: {min_action: -1.0, max_action: 1.0}}]'"
        yield Advice("warning", "action_scale", text, remedy)


def _evaluations(cfg: ExperimentConfig, met: Experience) -> Iterator[Advice]:
    every = cfg.eval.every_epochs
    if not every or met.mean_length is None:
        return
    judging, training = cfg.eval.episodes * met.mean_length, every * cfg.train.steps_per_epoch
    if judging > 2 * training and getattr(cfg.train, "dataset", None) is None:
        text = (
            f"an evaluation plays about {judging:,.0f} steps, and {training:,} are trained between two of them: most of"
            " the run would be evaluation"
        )
        seldom = ceil(4 * judging / cfg.train.steps_per_epoch)
        fewer = max(int(training / met.mean_length / 4), 1)
        remedy = f"eval.every_epochs={seldom}" if seldom <= cfg.train.epochs else f"eval.episodes={fewer}"
        yield Advice("warning", "mostly_evaluation", text, remedy)


def _time(cfg: ExperimentConfig, met: Experience, machine: Machine) -> Iterator[Advice]:
    seconds = met.seconds_per_step
    if seconds * STEPS_BEFORE_TIMEOUT > cfg.rollout.step_timeout:
        text = f"a step takes {seconds:.2g} s, and after rollout.step_timeout {cfg.rollout.step_timeout:g} s it is hung"
        yield Advice("error", "step_timeout", text, f"rollout.step_timeout={ceil(30 * seconds)}")
    if seconds <= SLOW_STEP or cfg.env.vectorization == "async" or cfg.rollout.workers is not None:
        return
    days = seconds * cfg.train.planned_steps / 86_400
    text = f"a step takes {seconds:.2g} s, so {cfg.train.planned_steps:,} of them {days:,.1f} days, one after the other"
    copies = max(cfg.env.num_envs, machine.cores)
    more = f"env.num_envs={copies} " if copies != cfg.env.num_envs else ""
    yield Advice("warning", "slow_steps", text, f"{more}env.vectorization=async")
