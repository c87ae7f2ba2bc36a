"""A run is built once: what was built to see whether it can be, trains; and any other build gives the same bits."""

import random

import numpy as np
import pytest
import torch

from rlstudio.control.runs.start import start_session
from rlstudio.control.workspace import Workspace
from rlstudio.experiment.checkpoint.snapshot import capture
from rlstudio.experiment.checkpoint.state_hash import state_hash
from rlstudio.experiment.run import session as session_module
from rlstudio.experiment.training import build as build_module
from rlstudio.experiment.training.build import build
from support.tiny_runs import TRAIN, config


def hash_of(trainer) -> str:
    return state_hash(capture(trainer, {}, seed=7, attempt=0, meta={}))


def seed_globals(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.parametrize("algo", sorted(TRAIN))
def test_two_builds_are_the_same_bits_and_draw_from_nothing_global(algo):
    cfg = config(algo, "native")
    hashes = []
    for seed in (1, 2):
        seed_globals(seed)
        before = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()
        built = build(cfg)
        assert before == (random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist())
        hashes.append(hash_of(built.trainer))
        built.close()
    assert hashes[0] == hashes[1]


def test_a_session_trains_what_was_built_before_the_run_appeared(tmp_path, monkeypatch):
    cfg = config("ppo", "native")
    calls, build_trainer = [], build_module.build_trainer

    def counted(*args):
        calls.append(build_trainer(*args))
        return calls[-1]

    for module in (build_module, session_module):
        monkeypatch.setattr(module, "build_trainer", counted)
    with start_session(Workspace(tmp_path), cfg) as session:
        assert calls == [session.trainer]
        fresh = build(cfg)
        assert hash_of(session.trainer) == hash_of(fresh.trainer)
        fresh.close()
