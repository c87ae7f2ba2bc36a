"""RLlib's PPO with one policy for all agents, in its own wrapper of PettingZoo's parallel environments."""

from __future__ import annotations

from measure import answer, job
from mpe2 import simple_spread_v3
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env
from rllib_runner import ppo, rate, start

SHARED = "shared"


def main() -> None:
    spec = job()
    start()
    register_env(spec["env_id"], lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    algo = ppo(spec).multi_agent(policies={SHARED}, policy_mapping_fn=lambda *_, **__: SHARED).build_algo()
    found = rate(spec, algo)
    algo.stop()
    answer(**found)


if __name__ == "__main__":
    main()
