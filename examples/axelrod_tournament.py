"""The rank of a trained policy among strategies of the Axelrod library: python axelrod_tournament.py RUN [STRATEGY ...]

rlctl launch -f configs/ipd/ppo.yaml 'env.kwargs.payoffs=[3,0,5,1]'
python examples/axelrod_tournament.py last
python examples/axelrod_tournament.py last TitForTat Grudger WinStayLoseShift ZDExtort2
"""

import sys

from rlstudio import orchestrator
from rlstudio.envs.worlds.ipd.axelrod_library import player
from rlstudio.envs.worlds.ipd.axelrod_players import policy_player, round_robin

USUAL = (
    *("Cooperator", "Defector", "TitForTat", "TitFor2Tats", "Grudger", "WinStayLoseShift", "GTFT", "Random"),
    *("Alternator", "SuspiciousTitForTat", "FirstByJoss", "FirstByGrofman", "FirstByDavis", "ZDExtort2", "ZDGTFT2"),
)

if len(sys.argv) < 2:
    sys.exit("usage: python axelrod_tournament.py RUN [STRATEGY ...]")
run, *names = sys.argv[1:]
mine = policy_player(orchestrator.get(run).agent(), called=f"RLStudio {run}")
table = round_robin([mine, *map(player, names or USUAL)])
for standing in table:
    print(f"{standing.rank:3d}  {standing.score:.3f}  {standing.name}")
own = next(standing for standing in table if standing.name == mine.name)
print(f"rank {own.rank} of {len(table)}, {own.score:.3f} per round")
