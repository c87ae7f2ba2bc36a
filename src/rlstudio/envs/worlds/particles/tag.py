"""simple_tag_v3 of MPE2: three slower hunters catch one faster prey among two obstacles.

    reward of each hunter: 10 for every hunter that touches the prey; of the prey: -10 for each, and less far outside
    observation: own speed, own place, obstacles and other agents relative to it; the hunters see the prey's speed too

State [places of agents, their speeds, obstacles]; agents begin anywhere in [-1, 1]^2, obstacles in [-0.9, 0.9]^2.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.particles.discs import MOVES, contacts, each, moved, points, push, rows, touching

HUNTERS, PREY, OBSTACLES = 3, 1, 2
AGENTS = HUNTERS + PREY
SIZES = (0.075,) * HUNTERS + (0.05,) * PREY
SENSITIVITY = (3.0,) * HUNTERS + (4.0,) * PREY
TOP_SPEEDS = (1.0,) * HUNTERS + (1.3,) * PREY
OBSTACLE_SIZE, OBSTACLE_EDGE = 0.2, 0.9
CAUGHT = 10.0
PREY_NUMBERS = 4 + 2 * OBSTACLES + 2 * (AGENTS - 1)


def _numbers(count: int) -> Box:
    return Box((count,), "float32", (-float("inf"),), (float("inf"),))


class SimpleTag:
    """Catch a faster prey with three hunters, or escape from them."""

    id = "mpe2/simple_tag_v3"
    state_size = 2 * (2 * AGENTS + OBSTACLES)
    noise_size = 2 * (AGENTS + OBSTACLES)
    limit: int | None = 25
    agents = AGENTS
    params: Mapping[str, float] = {}
    agent_names = (*(f"adversary_{number}" for number in range(HUNTERS)), "agent_0")
    agent_spaces = (
        *(Spaces(_numbers(PREY_NUMBERS + 2), Discrete(MOVES)) for _ in range(HUNTERS)),
        Spaces(_numbers(PREY_NUMBERS), Discrete(MOVES)),
    )
    spaces = agent_spaces[0]

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        places = noise * 2.0 - 1.0
        agents, obstacles = places[..., : 2 * AGENTS], places[..., 2 * AGENTS :] * OBSTACLE_EDGE
        return xp.concatenate((agents, xp.zeros_like(agents), obstacles), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        places, speeds, obstacles = _parts(states, xp)
        discs = xp.concatenate((places, obstacles), -2)
        forces = each(SENSITIVITY, places, xp)[..., None] * push(actions, xp)
        forces = forces + contacts(discs, (*SIZES, *(OBSTACLE_SIZE,) * OBSTACLES), AGENTS, xp)
        places, speeds = moved(places, speeds, forces, xp, TOP_SPEEDS)
        caught = CAUGHT * xp.sum(touching(places, SIZES, xp)[..., HUNTERS, :HUNTERS], -1)
        prey = -caught - _outside(abs(places[..., HUNTERS, :]), xp)
        rewards = xp.stack((*(caught for _ in range(HUNTERS)), prey), -1)
        following = xp.concatenate((rows(places, xp), rows(speeds, xp), rows(obstacles, xp)), -1)
        return Transition(following, rewards, xp.zeros_like(rewards, dtype=xp.bool))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        places, speeds, obstacles = _parts(states, xp)
        views = []
        for agent in range(AGENTS):
            here, last = places[..., agent, :], speeds[..., HUNTERS, :]
            to_obstacles = (obstacles[..., number, :] - here for number in range(OBSTACLES))
            others = (places[..., other, :] - here for other in range(AGENTS) if other != agent)
            prey_speed = last if agent < HUNTERS else xp.zeros_like(last)
            views.append(xp.concatenate((speeds[..., agent, :], here, *to_obstacles, *others, prey_speed), -1))
        return xp.stack(tuple(views), -2)


def _outside(distance: AnyArray, xp: Namespace) -> AnyArray:
    """What the prey loses for its distances to the two middle lines, at least 0."""
    near = (distance - 0.9) * 10.0
    far = xp.clip(xp.exp(2.0 * distance - 2.0), 0.0, 10.0)
    return xp.sum(xp.where(distance < 0.9, 0.0, xp.where(distance < 1.0, near, far)), -1)


def _parts(states: AnyArray, xp: Namespace) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Places, speeds, obstacles."""
    return (
        points(states, 0, AGENTS, xp),
        points(states, 2 * AGENTS, AGENTS, xp),
        points(states, 4 * AGENTS, OBSTACLES, xp),
    )
