"""PPO finds the best response in the prisoner's dilemma: seconds each, seeds fixed."""

import pytest

from rlstudio import orchestrator
from rlstudio.envs.worlds.ipd.memory_one import Payoffs, best_response, strategy
from rlstudio.envs.worlds.ipd.score import per_round
from rlstudio.envs.worlds.ipd.world import IPD

pytestmark = pytest.mark.learning

SHORT = ("train.epochs=5", "train.steps_per_epoch=8192", "train.rollout_steps=64", "train.batch_size=512")
GAME = ("env.kwargs.payoffs=[3, 0, 5, 1]", "env.kwargs.tremble=0", "env.kwargs.history=3")


@pytest.mark.parametrize("opponent", ["tit_for_tat", pytest.param("win_stay_lose_shift", marks=pytest.mark.slow)])
def test_ppo_answers_an_opponent_as_well_as_anyone_can(opponent, tmp_path):
    settings = (*GAME, *SHORT, f"env.kwargs.opponent={opponent}", "eval.episodes=1", "eval.final_episodes=1")
    run = orchestrator.run("configs/ipd/ppo.yaml", *settings, runs_dir=tmp_path, progress=False)
    (paid,) = per_round(IPD(**run.config.env.kwargs), run.agent().act, 0.95, 1)
    best = best_response(strategy(opponent), Payoffs(3, 0, 5, 1), 0.95).value
    assert 0.98 * best <= paid <= best + 1e-9
