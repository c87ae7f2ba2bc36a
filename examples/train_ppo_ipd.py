"""PPO learns whom it plays in the iterated prisoner's dilemma: python train_ppo_ipd.py [OVERRIDE ...]

python examples/train_ppo_ipd.py seed=3
python examples/train_ppo_ipd.py env.kwargs.opponent=tit_for_tat train.epochs=10
"""

import sys

from rlstudio import orchestrator
from rlstudio.envs.worlds.ipd.score import per_round
from rlstudio.envs.worlds.ipd.world import IPD

run = orchestrator.run("configs/ipd/ppo.yaml", *sys.argv[1:])
world, gamma = IPD(**run.config.env.kwargs), run.config.train.gamma
opponents, payoffs = world.opponents, world.payoffs

games = per_round(world, run.agent().act, gamma, episodes=5000)
print(f"per round {games.mean():.3f} (95 % within {1.96 * games.std() / len(games) ** 0.5:.3f}), 5,000 games")
print(f"best reply to the last round alone {opponents.best_memory_one(payoffs, gamma):.3f}")
print(f"knowing the opponent               {opponents.bound(payoffs, gamma):.3f}")
