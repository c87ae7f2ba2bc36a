"""A World of your own: a boat that is held at a buoy, in array code that NumPy and torch both run.

rlctl check my_world.py:MyWorld
rlctl launch --algo ppo --env my_world.py:MyWorld env.params.wind=0.3
rlctl launch --algo mpc --env my_world.py:MyWorld
"""

from __future__ import annotations

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Spaces


class MyWorld:
    """State [x, v], shown as it is."""

    id = "MyWorld-v0"
    # What it shows, and what it takes: shape, dtype, lowest, highest.
    spaces = Spaces(Box((2,), "float32", (-5.0,), (5.0,)), Box((1,), "float32", (-1.0,), (1.0,)))
    state_size = 2
    noise_size = 1  # uniform numbers that start an episode
    limit = 100  # steps after which an episode is truncated, or None
    agents = 1
    params = {"wind": 0.1, "drag": 0.5}  # numbers that env.params may change
    reward_range = (-5.0, 0.0)  # of a step, for planners that need bounds; may be left out

    # `p` has the parameters, `xp` is numpy or torch. Leading dimensions may be any, so index from the end.

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """First states [..., 2] from noise [..., 1] in [0, 1): all chance at the start comes from it."""
        x = noise[..., 0] * 4.0 - 2.0
        return xp.stack((x, xp.zeros_like(x)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        """The next states, what was earned, and whether the world ended the episode. Make new arrays, change none."""
        x, v = states[..., 0], states[..., 1]
        v = xp.clip(v + 0.1 * (actions[..., 0] + p["wind"] - p["drag"] * v), -5.0, 5.0)
        x = xp.clip(x + 0.1 * v, -5.0, 5.0)
        return Transition(xp.stack((x, v), -1), -abs(x), abs(x) >= 5.0)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return states

    def recall(self, observations: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """The states behind observations. Leave it out where something is hidden: then planners have no equations."""
        return observations
