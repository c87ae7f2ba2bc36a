"""GridLevels: which levels can be solved, and how long that takes; the start of MountainCar as a parameter."""

from collections import deque

import numpy as np
import pytest

from rlstudio.core.errors import ConfigError
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.levels.grid_levels import GridLevels
from rlstudio.envs.worlds.mountaincar import MountainCar
from rlstudio.envs.worlds.native import NativeVecEnv

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def first_states(world: GridLevels) -> np.ndarray:
    levels = np.arange(world.levels, dtype=float)
    return world.initial(np.full((world.levels, 1), 0.5), {"level": levels}, np)


def shortest(world: GridLevels, state: np.ndarray) -> list[int] | None:
    """Actions from the start to the goal, by breadth-first search over the board; None where there is no way."""
    board, goal = state[4:].reshape(world.size, world.size), (int(state[2]), int(state[3]))
    paths: dict[tuple[int, int], list[int]] = {(0, 0): []}
    queue = deque(paths)
    while queue:
        row, column = cell = queue.popleft()
        for action, (down, right) in enumerate(MOVES):
            following = row + down, column + right
            inside = all(0 <= at < world.size for at in following)
            if inside and not board[following] and following not in paths:
                paths[following] = [*paths[cell], action]
                queue.append(following)
    return paths.get(goal)


def test_most_levels_are_trivial_and_the_others_are_graded():
    world = GridLevels()
    states = first_states(world)
    walls = states[:, 4:].reshape(-1, world.size, world.size)[:, 1::2].any(-1).sum(-1)
    assert walls.tolist() == [0] * 48 + [1, 2, 3, 4] * 4
    assert (walls * 2 == states[:, 2]).all()  # the goal lies behind the last wall
    lengths = [len(shortest(world, state)) for state in states]
    assert max(lengths[:48]) <= 8
    assert min(lengths) == 1
    by_walls = [np.mean([n for n, w in zip(lengths, walls, strict=True) if w == k]) for k in range(5)]
    assert by_walls == sorted(by_walls)
    assert max(lengths) < 50  # of 100 steps


@pytest.mark.parametrize("level", [0, 47, 51, 63])
def test_the_shortest_path_reaches_the_goal_and_pays_what_is_said(level):
    world = GridLevels()
    actions = shortest(world, first_states(world)[level])
    env = NativeVecEnv(world, 1, 0, params={"level": float(level)})
    env.reset()
    steps = [env.step(np.array([action])) for action in actions[:-1]]
    assert not any(step.terminated[0] for step in steps)
    last = env.step(np.array(actions[-1:]))
    assert last.terminated[0]
    assert last.rewards[0] == pytest.approx(0.99)


def test_the_last_levels_are_impossible_and_otherwise_look_like_the_others():
    plain, closed = first_states(GridLevels(40, 10, 7)), first_states(GridLevels(40, 10, 7, impossible=12))
    assert (plain[:28] == closed[:28]).all()
    assert (plain[:, :4] == closed[:, :4]).all()
    assert ((closed != plain).sum(1) == [0] * 28 + [1] * 12).all()  # one gap is closed
    ways = [shortest(GridLevels(40, 10, 7), state) is not None for state in closed]
    assert ways == [True] * 28 + [False] * 12


def test_walls_and_the_rim_stop_the_walker():
    world = GridLevels()
    state = first_states(world)[51]
    board = state[4:].reshape(9, 9)
    column = int(np.flatnonzero(board[1])[0])
    for action, place in ((0, (0, 0)), (2, (0, 0)), (1, (0, column))):
        at = state.copy()
        at[:2] = place
        following = world.dynamics(at[None], np.array([action]), world.params, np).states[0]
        assert following.tolist() == at.tolist()


def test_what_is_seen_is_the_walker_the_goal_and_the_walls():
    world = GridLevels()
    state = first_states(world)[63]
    walker, goal, walls = np.split(world.observe(state, world.params, np), 3)
    assert np.flatnonzero(walker).tolist() == [0]
    assert np.flatnonzero(goal).tolist() == [state[2] * 9 + state[3]]
    assert walls.tolist() == state[4:].tolist()


def test_without_a_level_all_of_them_are_drawn_alike():
    world = GridLevels(levels=4, trivial=2)
    noise = (np.arange(400)[:, None] + 0.5) / 400
    drawn = world.initial(noise, world.params, np)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert counts.tolist() == [100] * 4


@pytest.mark.parametrize(
    "kwargs", [{"size": 8}, {"levels": 3, "trivial": 4}, {"levels": 0, "trivial": 0}, {"impossible": 17}]
)
def test_boards_that_cannot_be_are_refused(kwargs):
    with pytest.raises(ConfigError, match="must be"):
        make_world("rlstudio/GridLevels-v0", kwargs)


def test_a_car_starts_where_its_parameters_say():
    noise = np.linspace(0, 1, 1000, endpoint=False)[:, None]
    world = MountainCar()
    assert (world.initial(noise, world.params, np)[:, 0] == noise[:, 0] * 0.2 - 0.6).all()  # Gymnasium's, bit for bit
    assert not world.initial(noise, world.params, np)[:, 1].any()
    changed = {"start": 0.3, "start_width": 0.1, "start_speed": 0.02}
    x, speed = world.initial(noise, {**world.params, **changed}, np).T
    assert (x.min(), x.max()) == pytest.approx((0.3, 0.4), abs=2e-4)
    assert (speed == 0.02).all()
