"""simple_spread_v3 of MPE2: three agents cover three landmarks without touching each other.

    reward of an agent: half of -(sum over landmarks of the distance to the nearest agent), half of -1 per agent touched
    observation: own speed, own place, landmarks and other agents relative to it, and two silent words of each other

State [places of agents, their speeds, landmarks]; all places begin anywhere in [-1, 1]^2.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.particles.discs import MOVES, contacts, distances, moved, points, push, rows, touching

AGENTS = LANDMARKS = 3
SIZES = (0.15,) * AGENTS
SENSITIVITY = 5.0
WORDS = 2
"""As many as a place has numbers."""


class SimpleSpread:
    """Cover three landmarks with three agents; they are paid together, and each for its own collisions."""

    id = "mpe2/simple_spread_v3"
    state_size = 2 * (2 * AGENTS + LANDMARKS)
    noise_size = 2 * (AGENTS + LANDMARKS)
    limit: int | None = 25
    agents = AGENTS
    params: Mapping[str, float] = {}
    spaces = Spaces(
        Box((4 + 2 * LANDMARKS + (2 + WORDS) * (AGENTS - 1),), "float32", (-float("inf"),), (float("inf"),)),
        Discrete(MOVES),
    )

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        places = noise * 2.0 - 1.0
        agents, landmarks = places[..., : 2 * AGENTS], places[..., 2 * AGENTS :]
        return xp.concatenate((agents, xp.zeros_like(agents), landmarks), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        places, speeds, landmarks = _parts(states, xp)
        forces = SENSITIVITY * push(actions, xp) + contacts(places, SIZES, AGENTS, xp)
        places, speeds = moved(places, speeds, forces, xp)
        away = distances(landmarks[..., :, None, :] - places[..., None, :, :], xp)
        uncovered = xp.sum(xp.amin(away, -1), -1)
        rewards = -0.5 * uncovered[..., None] - 0.5 * xp.sum(touching(places, SIZES, xp), -1)
        following = xp.concatenate((rows(places, xp), rows(speeds, xp), rows(landmarks, xp)), -1)
        return Transition(following, rewards, xp.zeros_like(rewards, dtype=xp.bool))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        places, speeds, landmarks = _parts(states, xp)
        views = []
        for agent in range(AGENTS):
            here = places[..., agent, :]
            others = [places[..., other, :] - here for other in range(AGENTS) if other != agent]
            to_landmarks = (landmarks[..., number, :] - here for number in range(LANDMARKS))
            silence = (xp.zeros_like(other) for other in others)
            views.append(xp.concatenate((speeds[..., agent, :], here, *to_landmarks, *others, *silence), -1))
        return xp.stack(tuple(views), -2)


def _parts(states: AnyArray, xp: Namespace) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Places, speeds, landmarks."""
    return (
        points(states, 0, AGENTS, xp),
        points(states, 2 * AGENTS, AGENTS, xp),
        points(states, 4 * AGENTS, LANDMARKS, xp),
    )
