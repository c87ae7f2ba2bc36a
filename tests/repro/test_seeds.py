"""`seed_all` at the start of every session and worker: code that draws from global generators gets the same numbers."""

import random

import numpy as np
import torch

from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.seeds import first_seeds, worker_seed
from support.env_toys import register_toys
from support.experiments import tiny
from support.sessions import resume, start


def test_a_session_seeds_the_global_generators_and_the_run_remembers_it(tmp_path):
    cfg = tiny("ppo", env={"seed": 7})
    with start(cfg, tmp_path) as session:
        drawn = random.random(), np.random.random(), torch.rand(()).item()
        folder = session.folder
    first = folder.seeds()
    assert first["seed"] == 7
    assert all(len(first[name]) == 64 for name in ("python", "numpy", "torch", "envs"))
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    with resume(folder):
        assert (random.random(), np.random.random(), torch.rand(()).item()) == drawn
    assert folder.seeds() == first
    assert [event["kind"] for event in folder.events()].count("seeded") == 2


def test_workers_have_numbers_of_their_own_and_the_same_in_every_run():
    register_toys()
    cfg = EnvConfig(id="toys/Shared-v0", num_envs=4, seed=3, vectorization="async")
    shown = []
    for _ in range(2):
        env = make_vec_env(cfg)
        try:
            shown.append([env.reset().copy(), *(env.step(np.zeros(4, np.int64)).observations.copy() for _ in range(3))])
        finally:
            env.close()
    assert all(np.array_equal(one, other) for one, other in zip(*shown, strict=True))
    assert worker_seed(3, 0) != worker_seed(3, 2)
    assert len(set(first_seeds(3, 100))) == 100
