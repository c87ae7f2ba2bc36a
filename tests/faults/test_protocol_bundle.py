"""A bundle is whole or not there: killed or refused by the disk at every change that writing it makes."""

import contextlib

import numpy as np
import pytest

from rlstudio.core.errors import StorageError, UserError
from rlstudio.core.spaces import Box, Discrete, Spaces, to_json
from rlstudio.delivery.bundle import CONFIG, EXAMPLE, README, open_bundle, write_bundle
from rlstudio.delivery.spec import ActingFacts, BundleOrigin, Spec, derived
from rlstudio.models.config import NetworkConfig
from rlstudio.models.spec import ModelSpec
from rlstudio.storage import failpoint
from support.kills import EVERY, KILLED
from support.processes import in_child

SPACES = Spaces(Box((2,), "float32", (-1.0,), (1.0,)), Discrete(3, 1))
MODEL = ModelSpec(variant="policy-only", network=NetworkConfig(hidden_sizes=()))
SPEC = Spec(
    format=1,
    rlstudio="0",
    name="toy",
    algo="ppo",
    origin=BundleOrigin(kind="run"),
    model=MODEL,
    observation=to_json(SPACES.observation),
    action=to_json(SPACES.action),
    parity={"rows": 1000},
    formats={},
    derived=derived(SPACES, MODEL, ActingFacts()),
)
WEIGHTS = {
    "policy_net.layers.0.weight": np.ones((3, 2), np.float32),
    "policy_net.layers.0.bias": np.zeros(3, np.float32),
}


def write(target):
    return write_bundle(target, SPEC, WEIGHTS, {README: b"read me", EXAMPLE: b"pass", CONFIG: b"{}"})


def is_whole(target) -> bool:
    if not target.exists():
        return False
    assert open_bundle(target).agent().act(np.zeros(2, np.float32)) == 1
    return True


@pytest.mark.real_process
@EVERY
@KILLED
def test_every_kill_point(tmp_path, monkeypatch, kinds, every):
    point, status, seen = 1 - every, 9, []
    while status == 9:
        point += every
        target = tmp_path / str(point) / "deep" / "bundle"

        def killed(target=target, point=point):
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kinds[point % len(kinds)]}")
            write(target)

        status = in_child(killed)
        seen.append(is_whole(target))
        if not seen[-1]:
            assert is_whole(write(target).path)  # again, beside what was left
    print(f"killed at {len(seen)} points of a bundle")
    assert status == 0
    assert point > 15
    assert seen == sorted(seen)  # nothing, and from one moment on everything
    assert not seen[0]


@pytest.mark.parametrize("kind", ["eio", "enospc"])
def test_every_refusal_leaves_nothing(tmp_path, monkeypatch, kind):
    point, done = 0, False
    while not done:
        point += 1
        target = tmp_path / str(point) / "bundle"
        failpoint.restart()
        monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kind}")
        with contextlib.suppress(StorageError, UserError):
            write(target)
            done = failpoint.passed() < point
        monkeypatch.delenv(failpoint.VARIABLE)
        if not is_whole(target):
            assert not target.parent.exists() or list(target.parent.iterdir()) == []
    assert point > 15
