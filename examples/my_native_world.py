"""A World of your own: written once in array code, it trains as a NumPy vector and is planned in by its equations.

rlctl launch --import my_native_world --algo ppo --env Boat-v0 env.params.wind=0.3
rlctl launch --import my_native_world --algo mpc --env Boat-v0
"""

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import Transition
from rlstudio.core.spaces import Box, Spaces


class Boat:
    """Hold the boat at the buoy; wind pushes it, water slows it. State [x, v], shown as it is."""

    id = "Boat-v0"
    spaces = Spaces(Box((2,), "float32", (-5.0,), (5.0,)), Box((1,), "float32", (-1.0,), (1.0,)))
    state_size = 2
    noise_size = 1
    limit = 100
    agents = 1
    params = {"wind": 0.1, "drag": 0.5}

    def initial(self, noise, p, xp):
        x = noise[..., 0] * 4.0 - 2.0
        return xp.stack((x, xp.zeros_like(x)), -1)

    def dynamics(self, states, actions, p, xp):
        x, v = states[..., 0], states[..., 1]
        v = xp.clip(v + 0.1 * (actions[..., 0] + p["wind"] - p["drag"] * v), -5.0, 5.0)
        x = xp.clip(x + 0.1 * v, -5.0, 5.0)
        return Transition(xp.stack((x, v), -1), -abs(x), abs(x) >= 5.0)

    def observe(self, states, p, xp):
        return states

    def recall(self, observations, p, xp):
        return observations


WORLDS.register(Boat.id, Boat)
