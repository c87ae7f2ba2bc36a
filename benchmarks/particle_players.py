"""Players by rule of MPE2's particle worlds, for comparison, and games of any players in MPE2's own environments.

What a player sees and chooses is MPE2's: rows of numbers, and 0 to 4 for stay, left, right, down, up; a speaker's
choices are words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

import numpy as np

Player = Callable[[np.ndarray], int]
"""From what an agent observes to its choice."""

DIRECTIONS = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float64)
NEAR_ENOUGH = 0.05
LOOK_AHEAD = 0.4
"""Seconds in which a disc covers what it must brake for, or a prey goes on as it does."""

HUNTERS = ("adversary_0", "adversary_1", "adversary_2")
PREY = "agent_0"
EDGE = 0.9
"""Of the square outside of which a prey loses reward."""


def at_random(choices: int, seed: int) -> Player:
    rng = np.random.default_rng(seed)
    return lambda observation: int(rng.integers(choices))


def toward(place: np.ndarray) -> int:
    """The choice that goes there, along the longer axis."""
    if np.abs(place).max() < NEAR_ENOUGH:
        return 0
    return int(np.argmax(DIRECTIONS @ place))


def speak(observation: np.ndarray) -> int:
    """The word with the number of the brightest colour."""
    return int(np.argmax(observation))


def listen(observation: np.ndarray) -> int:
    """To the landmark with the number of the word."""
    speed, landmarks, words = observation[:2], observation[2:8].reshape(3, 2), observation[8:]
    if not words.any():
        return 0
    return toward(landmarks[int(np.argmax(words))] - LOOK_AHEAD * speed)


def hunt(observation: np.ndarray) -> int:
    """To where the prey will be."""
    speed, prey, prey_speed = observation[:2], observation[12:14], observation[14:16]
    return toward(prey + LOOK_AHEAD * (prey_speed - speed))


def flee(observation: np.ndarray) -> int:
    """Where the nearest hunter will be farthest, and not out of the square."""
    speed, place, hunters = observation[:2], observation[2:4], observation[8:14].reshape(3, 2)
    moves = LOOK_AHEAD * (speed + DIRECTIONS)
    nearest = np.linalg.norm(hunters[None] - moves[:, None], axis=-1).min(1)
    outside = np.maximum(np.abs(place + moves) - EDGE, 0.0).sum(1)
    return int(np.argmax(nearest - 10.0 * outside))


def returns(id: str, players: Mapping[str, Player], episodes: int, seed: int) -> dict[str, float]:
    """The mean return of each agent in MPE2's environment of that id."""
    env = import_module(id.replace("/", ".")).parallel_env()
    totals = dict.fromkeys(players, 0.0)
    for episode in range(episodes):
        observations, _ = env.reset(seed=seed + episode)
        while env.agents:
            chosen = {agent: players[agent](observations[agent]) for agent in env.agents}
            observations, rewards, *_ = env.step(chosen)
            for agent, reward in rewards.items():
                totals[agent] += float(reward)
    return {agent: total / episodes for agent, total in totals.items()}
