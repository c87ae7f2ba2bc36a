"""Algorithms over runtimes that they do not know: slices with older weights, another lane, many agents; ranks are in
`test_ranks.py`.

Each runs from its own unchanged file. What is wrong in an algorithm would be wrong here: a row that counts twice, an
exploration that starts anew in every worker.
"""

import pytest
import torch

from rlstudio.algos.ppo import PPO, ppo_loss
from rlstudio.core.batch import Batch
from rlstudio.core.catalog import LANES, Part
from rlstudio.core.contracts import ReplayPlan
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.turns import OpenDecisions, decisions
from rlstudio.data.runtime import LocalRuntime
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.models.policies.distributions import policy_change
from rlstudio.testing.trainers import as_loaded
from support.experiments import tiny
from support.runtimes import (
    STAND_IN_ALGOS,
    Game,
    Idle,
    Marking,
    SlicedRuntime,
    actions_of,
    run_through,
    trainer_over,
    weights,
    world,
)

SHORT = {"mbmpc": {"n_step": 2, "planner": {"iterations": 1}}}
algorithms = pytest.mark.parametrize("algo", STAND_IN_ALGOS)


# -- workers -----------------------------------------------------------------------------------------------------------


@algorithms
def test_an_algorithm_learns_from_slices_with_older_weights(algo):
    envs = [world(algo, 2, seed=3), world(algo, 2, seed=4)]
    trainer = trainer_over(SlicedRuntime(envs), algo, **SHORT.get(algo, {}))
    before = weights(trainer).clone()
    reports = run_through(trainer)
    assert len(reports) == 3
    assert trainer.source.env_steps >= 3 * 64
    assert not torch.equal(weights(trainer), before)
    assert trainer.weights_are_finite()
    assert sum(report["rollout/episodes"] for report in reports) > 0 or algo == "sac"


@pytest.mark.parametrize("algo", ["dqn", "mbmpc"])
def test_exploration_of_slices_goes_by_the_steps_of_all(algo):
    envs = [world(algo, 2, seed=3), world(algo, 2, seed=4)]
    trainer = trainer_over(SlicedRuntime(envs), algo, **SHORT.get(algo, {}))
    trainer.progress(0.5)
    slices = trainer.source.collector.slices
    if algo == "dqn":
        trainer.train_step()
        assert {part.exploration.explore.epsilon for part in slices} == {trainer.cfg.epsilon_end}
        return
    for part in slices:
        part.exploration.explore = Marking(part.exploration.explore.steps)
    trainer.train_step()
    places = [place for part in slices for place in part.exploration.explore.places]
    assert min(place.env_steps for place in places) == 4
    assert max(place.env_steps for place in places) >= trainer.cfg.learning_starts


def test_rows_of_older_weights_are_weighed_by_what_the_present_ones_would_do():
    """PPO's ratio is against the policy that acted, so already the first minibatch may clip."""
    trainer = trainer_over(SlicedRuntime([world("ppo", 2, 3), world("ppo", 2, 4)]), "ppo", lr=0.05)
    kls = []
    for _ in range(2):
        rollout = trainer.source.next()
        learned = trainer.with_advantages(rollout)
        assert torch.equal(learned.log_probs, rollout.behaviour_log_probs)
        log_ratios = ppo_loss(trainer.model, learned.flatten(), trainer.cfg)[1]
        kls.append(float(policy_change([(log_ratios, None)], trainer.cfg.clip)["kl"]))
        trainer.update(rollout)
    assert kls[0] < 1e-9 < kls[1]


# -- lanes -------------------------------------------------------------------------------------------------------------


class WholePasses:
    """PPO by other code: each pass is one update with every row, losses summed up environment by environment."""

    def __init__(self, inner: PPO) -> None:
        self.inner, self.agent, self.source = inner, inner.agent, inner.source
        self.optimizers = inner.optimizers
        self.cfg = inner.cfg

    gradient_steps = property(lambda self: self.inner.gradient_steps)
    skipped = property(lambda self: self.inner.skipped)
    lr = property(lambda self: self.inner.lr)

    def weights_are_finite(self) -> bool:
        return self.inner.weights_are_finite()

    def train_step(self):
        learned = self.inner.with_advantages(self.source.next()).flatten()
        for _ in range(self.cfg.passes):
            loss, _, metrics = ppo_loss(self.inner.model, learned, self.cfg)
            metrics["grad_norm"] = self.inner.optimizer.step(loss)
        return metrics

    def eval_step(self):
        return self.inner.eval_step()

    def progress(self, fraction: float) -> None:
        self.inner.progress(fraction)

    def stateful(self):
        return self.inner.stateful()


class PassesLane:
    def refuses(self, algo, cfg, network, runtime):
        return None if algo == "ppo" else f"{algo} is not PPO"

    def trainer(self, algo, cfg, runtime, network, rng):
        return WholePasses(PPO(cfg, runtime, network, rng))


@pytest.fixture
def passes_lane(monkeypatch):
    monkeypatch.setitem(LANES.builtin, "passes", Part(f"{__name__}:PassesLane", "tests"))


@pytest.mark.usefixtures("passes_lane")
def test_a_lane_goes_on_with_a_checkpoint_of_the_algorithm_and_back():
    trainers = []
    for lane in ("eager", "passes", "eager"):
        cfg = tiny("ppo", runtime={"lane": lane})
        trainer = build_trainer(cfg, build_runtime(cfg))
        if trainers:
            content = capture(trainers[-1], {}, seed=3, attempt=0, meta={})
            restore(as_loaded(content), trainer, {})
            assert trainer.gradient_steps == trainers[-1].gradient_steps
            assert trainer.source.env_steps == trainers[-1].source.env_steps
            for name, tensor in trainer.agent.model.state_dict().items():
                assert torch.equal(tensor, trainers[-1].agent.model.state_dict()[name])
        trainer.train_step()
        trainers.append(trainer)
    assert [type(trainer) for trainer in trainers] == [PPO, WholePasses, PPO]


@pytest.mark.usefixtures("passes_lane")
def test_a_lane_says_what_it_cannot_train():
    cfg = tiny("a2c", runtime={"lane": "passes"})
    with pytest.raises(Incompatible, match=r"runtime\.lane: passes cannot train this: a2c is not PPO; use eager"):
        build_trainer(cfg, build_runtime(cfg))
    with pytest.raises(ConfigError, match=r"runtime\.lane: unknown lane 'eagre'; did you mean eager"):
        tiny("ppo", runtime={"lane": "eagre"})


# -- many agents -------------------------------------------------------------------------------------------------------


@algorithms
def test_three_agents_of_which_one_dies_and_two_take_turns(algo):
    """What stands in the columns of an agent that is gone is never learned from."""
    results = []
    for garbage in (0.0, 1e6):
        game = Game(games=2, actions=actions_of(algo), garbage=garbage)
        more = {"normalize_rewards": True} if algo in ("ppo", "a2c") else {"n_step": 2} if algo != "sac" else {}
        trainer = trainer_over(LocalRuntime(game, replay_capacity=256), algo, steps_per_epoch=72, **more)
        reports = run_through(trainer)
        results.append((weights(trainer), reports))
    (one, reports), (other, _) = results
    assert torch.equal(one, other)
    played = [report for report in reports if report["rollout/episodes"]]
    assert played
    lengths = {report["rollout/length_mean"] for report in played}
    assert all(4 <= length <= 5 for length in lengths), "4 steps of the one that dies, 5 of those that take turns"


def test_what_an_agent_earns_while_it_waits_belongs_to_its_last_action():
    rollout = Collector(Game(1, Discrete(3), garbage=9.0), Idle(), Rng(0)).collect(10)
    rows = decisions(rollout)
    assert rows.active.T.int().tolist() == [[1] * 4 + [0] * 6, [1, 0] * 5, [0, 1] * 5]
    assert torch.equal(rows.weights, rows.active.float())
    assert rows.rewards.T.tolist() == [[1] * 4 + [9] * 6, [1, 0] * 5, [0, 1] * 4 + [0, 0]]
    assert rows.terminated.T.int().tolist() == [[0, 0, 0, 1] + [0] * 6, [0] * 8 + [1, 0], [0] * 9 + [1]]
    after = rows.next_observations[rows.active[:, 1], 1, 0] * 10
    assert after.tolist() == pytest.approx([2, 4, 6, 8, 10]), "the successor is what it sees at its next turn"


def transitions_of(rows: Batch, env: int) -> list[list[float]]:
    """The active rows of one column, as plain numbers."""
    numbers = [
        torch.stack((rows.rewards, rows.terminated.float()), -1),
        rows.observations,
        rows.next_observations,
    ]
    return torch.cat(numbers, -1)[rows.active[:, env], env].tolist()


@pytest.mark.parametrize("cuts", [[10, 10], [1] * 20, [3, 7, 4, 6]])
def test_held_back_actions_come_out_whole_however_the_steps_are_cut(cuts):
    whole = decisions(Collector(Game(1, Discrete(3), garbage=9.0), Idle(), Rng(0)).collect(20))
    collector, held = Collector(Game(1, Discrete(3), garbage=9.0), Idle(), Rng(0)), OpenDecisions()
    rows: list[list[list[float]]] = [[], [], []]
    for steps in cuts:
        restored = OpenDecisions()
        restored.load_state_dict(as_loaded(held.state_dict()))
        held = restored
        complete = held.complete(collector.collect(steps))
        for env in range(3):
            rows[env] += transitions_of(complete, env)
    assert rows == [transitions_of(whole, env) for env in range(3)]


def test_a_sample_waits_for_a_window_of_agents_that_act_now_and_then():
    runtime = LocalRuntime(Game(1, Discrete(3), garbage=9.0), replay_capacity=64)
    source = runtime.replay(Idle(), Rng(0), ReplayPlan(4, warmup=1, every=1, horizon=3))
    assert source.next().shape == (4,)
    assert source.size >= 3


def test_rows_of_an_agent_that_is_gone_are_not_counted_as_bad():
    collector = Collector(Game(1, Discrete(3), garbage=float("nan")), Idle(), Rng(0))
    rows = decisions(collector.collect(20))
    assert collector.inspection.guard.bad_rows == 0
    assert torch.isfinite(rows.observations).all()
    assert torch.isfinite(rows.rewards).all()
