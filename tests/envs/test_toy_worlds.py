"""Chain, GridWorld and the identities: their dynamics against their closed forms."""

import numpy as np
import pytest

from rlstudio.envs.worlds.chain import Chain
from rlstudio.envs.worlds.gridworld import GridWorld
from rlstudio.envs.worlds.identity import Identity, IdentityBox
from rlstudio.envs.worlds.native import NativeVecEnv
from support.closed_forms import chain_action_values, chain_values, gridworld_value

GAMMA = 0.9


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_chain_values_solve_bellmans_equation(n, endless):
    world = Chain(n, endless)
    states = np.repeat(np.arange(n), 2)[:, None].astype(float)
    actions = np.tile([0, 1], n)
    following = world.dynamics(states, actions, world.params, np)
    values = chain_values(GAMMA, n, endless)
    bootstrap = np.where(following.terminated, 0, values[following.states[:, 0].astype(int)])
    expected = following.rewards + GAMMA * bootstrap
    np.testing.assert_allclose(chain_action_values(GAMMA, n, endless).ravel(), expected, rtol=1e-12)
    np.testing.assert_allclose(chain_action_values(GAMMA, n, endless).max(1), values, rtol=1e-12)


def test_chain_ends_by_termination_and_by_time():
    vec = NativeVecEnv(Chain(5), 2, 0, limit=3)
    vec.reset()
    right = np.array([1, 1])
    flags = [
        tuple(map(int, (s.terminated[0], s.truncated[0], s.successors[0].argmax()))) for s in map(vec.step, [right] * 3)
    ]
    assert flags == [(0, 0, 1), (0, 0, 2), (0, 1, 3)]
    vec = NativeVecEnv(Chain(3), 1, 0)
    vec.reset()
    steps = [(s.rewards[0], s.terminated[0], s.observations[0].argmax()) for s in map(vec.step, [right[:1]] * 3)]
    assert steps == [(0, False, 1), (0, False, 2), (1, True, 0)]


def optimal_values(world: GridWorld) -> np.ndarray:
    """Value iteration on the dynamics themselves."""
    size = world.size
    rows, columns, actions = (a.ravel() for a in np.meshgrid(range(size), range(size), range(4), indexing="ij"))
    values = np.zeros(size * size)
    faces = [np.array([rows, columns, np.full(len(rows), dice)], float).T for dice in (0, 1000, 2000, 3000)]
    outcomes = [world.dynamics(states, actions, world.params, np) for states in faces]
    for _ in range(400):
        backups = [
            o.rewards + GAMMA * ~o.terminated * values[(o.states[:, 0] * size + o.states[:, 1]).astype(int)]
            for o in outcomes
        ]
        values = np.mean(backups, 0).reshape(-1, 4).max(1)
    return values


@pytest.mark.parametrize("teleport", [True, False])
def test_gridworld_optimum_is_the_closed_form(teleport):
    values = optimal_values(GridWorld(teleport=teleport))
    assert values[0] == pytest.approx(gridworld_value(GAMMA, teleport=teleport), rel=1e-9)
    if teleport:
        assert values[0] == pytest.approx(7.170, abs=5e-4)
        assert (1 - GAMMA) * values[0] == pytest.approx(0.717, abs=5e-4)


def test_gridworld_lands_near_all_four_corners():
    vec = NativeVecEnv(GridWorld(), 64, 0)
    vec.reset()
    for action in (1, 1, 1, 3, 3):
        vec.step(np.full(64, action))
    step = vec.step(np.full(64, 3))
    assert (step.rewards == 9).all()
    cells, counts = np.unique(step.observations.argmax(1), return_counts=True)
    assert cells.tolist() == [8, 12, 36, 40]
    assert counts.min() >= 6
    assert not step.terminated.any()


def test_identity_pays_for_doing_what_is_shown():
    vec = NativeVecEnv(Identity(), 200, 0)
    shown = vec.reset()
    counts = np.zeros(4)
    for elapsed in range(1, 9):
        counts += shown.sum(0)
        step = vec.step(shown.argmax(1) if elapsed % 2 else (shown.argmax(1) + 1) % 4)
        assert (step.rewards == elapsed % 2).all()
        assert step.terminated.all() == (elapsed % 4 == 0)
        shown = step.observations
    assert counts.min() > 0.15 * counts.sum()


def test_identity_box_pays_for_being_near():
    vec = NativeVecEnv(IdentityBox(), 200, 0)
    shown = vec.reset().copy()
    assert np.abs(shown).max() <= 1
    assert shown.std() == pytest.approx(1 / 3**0.5, rel=0.15)
    assert np.abs(vec.step(shown).rewards).max() < 1e-6
    shown = vec.step(shown).observations.copy()
    np.testing.assert_allclose(vec.step(shown - 0.5).rewards, -0.25, rtol=1e-5)


def test_worlds_of_other_sizes():
    assert NativeVecEnv(GridWorld(size=5), 1, 0).reset().shape == (1, 25)
    assert NativeVecEnv(Chain(n=3), 2, 0).reset().shape == (2, 3)
    for make in (lambda: GridWorld(size=4), lambda: Chain(1), lambda: Identity(k=1), lambda: IdentityBox(length=0)):
        with pytest.raises(ValueError, match="at least"):
            make()
