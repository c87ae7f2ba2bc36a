"""An algorithm on an environment, with nothing around it: no folder, no checkpoint, no evaluation.

    python bare_loop.py

The quickest way to see whether a new algorithm learns at all. As a plug-in it gets the rest (see ../CONTRIBUTING.md).
"""

from reinforce import Reinforce, ReinforceConfig

from rlstudio.core.rng import Rng
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.training.loop import Position, train
from rlstudio.experiment.training.machine import set_threads
from rlstudio.models.config import NetworkConfig

set_threads(1)  # small networks are fastest with one; a run does this by itself
cfg = ReinforceConfig(epochs=30)
env = make_vec_env(EnvConfig(id="CartPole-v1", num_envs=8))
trainer = Reinforce(cfg, LocalRuntime(env), NetworkConfig(), Rng(1))

for tick in train(trainer, cfg, Position()):
    if tick.report:
        print(f"epoch {tick.epoch}  return {tick.report.metrics['rollout/return_mean']:.1f}")
env.close()
