"""`zoo:NAME` in commands: listed, evaluated, copied, promoted, forked; and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.zoo import read_index

from rlstudio.core.errors import UserError
from rlstudio.delivery import zoo
from rlstudio.delivery.bundle import open_bundle
from support.cli_scenario import Rlctl

INDEX = read_index()


def test_what_is_not_there_is_answered_by_the_nearest(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^zoo:a2c/cartpol: not in the zoo; did you mean zoo:a2c/cartpole\?; list it"):
        zoo.zoo_folder("zoo:a2c/cartpol")
    done = rlctl("eval", "zoo:nothing/here")
    assert (done.code, done.err.count("\n")) == (2, 1)
    done = rlctl("export", "zoo:a2c/cartpole", "--checkpoint", "best", "-o", "b")
    assert "a policy of the zoo is copied as it is" in done.err
    monkeypatch.setattr(zoo, "FOLDER", Path("elsewhere"))
    with pytest.raises(UserError, match="the zoo is missing from this installation"):
        zoo.zoo_entries()


def test_a_policy_is_listed_copied_promoted_and_forked(rlctl: Rlctl, place: Path) -> None:
    listed = rlctl("zoo", "--json").document
    assert [entry["name"] for entry in listed] == [f"zoo:{name}" for name in INDEX]
    assert listed[0].keys() >= {"config", "env", "score", "episodes", "env_steps", "seed", "size"}
    assert rlctl("zoo", "no such thing").out.startswith("no policy of the zoo has")
    assert rlctl("export", "zoo:a2c/cartpole", "-o", "copy").code == 0
    assert open_bundle(place / "copy").sha256 == INDEX["a2c/cartpole"]["sha256"]
    assert rlctl("promote", "zoo:a2c/cartpole", "--model", "cart").code == 0
    assert rlctl("models", "cart", "--json").document
    forked = rlctl("fork", "zoo:a2c/cartpole", "train.epochs=1", "train.steps_per_epoch=200", "--quiet")
    assert forked.code == 0
    weights = rlctl("show", "last", "--lineage", "--json").document
    assert "a2c/cartpole" in str(weights)
