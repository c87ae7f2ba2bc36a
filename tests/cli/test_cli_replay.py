"""`rlctl replay`: whose rows, where one comes from, and decisions that a resume carries out once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rlstudio.experiment.checkpoint.manifest import manifest_bytes
from support.cli_scenario import Rlctl, everything

TRAIN = (
    "launch", "--algo", "dqn", "--env", "CartPole-v1", "env.num_envs=3", "policy.network.hidden_sizes=[8]",
    "train.steps_per_epoch=300", "train.epochs=1", "train.learning_starts=60", "train.train_every=30",
    "train.batch_size=8", "eval.every_epochs=0", "eval.final_episodes=1",
)  # fmt: skip


@pytest.fixture
def sources(rlctl: Rlctl, place: Path) -> Callable[[], list[str]]:
    done = rlctl(*TRAIN)
    assert done.code == 0, done.err
    return lambda: [one["standing"] for one in rlctl("replay", "last", "--json").document["sources"]]


def test_decisions_are_carried_out_by_a_resume(rlctl: Rlctl, sources: Callable[[], list[str]]) -> None:
    assert sources() == ["counts"] * 3
    done = rlctl("replay", "last", "quarantine", "1")
    assert done.code == 0, done.err
    assert sources()[1] == "quarantined: by the user (from the next resume on)"
    *remedy, longer = done.out.splitlines()[-1].removeprefix("carried out with: rlctl ").split()
    assert longer == "train.epochs=2"  # the run has completed its one epoch
    assert rlctl(*remedy, longer).code == 0
    assert sources()[1] == "quarantined: by the user"
    assert rlctl("show", "last", "--json").document["exact"] is False
    assert rlctl("replay", "last", "purge", "1").code == 0
    assert rlctl("resume", "last", "train.epochs=3").code == 0
    assert rlctl("replay", "last", "release", "1").code == 0
    assert rlctl("resume", "last", "train.epochs=4").code == 0
    assert sources() == ["counts"] * 3
    (_, purged, other) = rlctl("replay", "last", "--json").document["sources"]
    assert (purged["bad_rows"], other["bad_rows"]) == (200, 0)  # what was held when it was purged
    assert "199" in rlctl("replay", "last", "--row", "597").out


def test_a_child_carries_out_its_own_decisions(rlctl: Rlctl, sources: Callable[[], list[str]]) -> None:
    """Its history begins anew: those of its parent are done, and do not count as its own."""
    for words in ("replay last quarantine 1", "resume last train.epochs=2", "fork last train.epochs=3"):
        assert rlctl(*words.split()).code == 0, words
    assert sources() == ["counts", "quarantined: by the user", "counts"]
    assert rlctl("replay", "last", "purge", "2").code == 0
    assert sources()[2] == "purged by the user (from the next resume on)"
    assert rlctl("resume", "last", "train.epochs=4").code == 0
    assert sources() == ["counts", "quarantined: by the user", "quarantined: by the user"]


def test_where_a_row_comes_from(rlctl: Rlctl, sources: Callable[[], list[str]], place: Path) -> None:
    before = everything(place)
    document = rlctl("replay", "last", "--row", "0", "--json").document
    assert document["episode"].startswith("episode 0 (seed ")
    assert [document[name] for name in ("source", "env", "step", "version")] == [0, 0, 0, 0]
    assert rlctl("replay", "last", "--row", "299", "--json").document["version"] == 16  # eight rounds of two
    assert everything(place) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("quarantine",), "replay: name what to do and the source"),
        (("quarantine", "7"), "replay: there is no source 7; they are 0 to 2"),
        (("release", "0"), "replay: source 0 counts already"),
        (("--row", "9999"), "row 9999: the replay of run"),
        (("purge", "0", "--row", "1"), "--row: shows where a row comes from"),
    ],
)
def test_what_cannot_be(rlctl: Rlctl, sources: Callable[[], list[str]], words: tuple[str, ...], message: str) -> None:
    done = rlctl("replay", "last", *words)
    assert done.code == 2
    assert message in done.err


def test_a_checkpoint_that_does_not_say_how_many_there_are(
    rlctl: Rlctl, sources: Callable[[], list[str]], place: Path
) -> None:
    """One from elsewhere, with right hashes."""
    for path in place.glob("runs/*/checkpoints/*/MANIFEST.json"):
        fields = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "sha256"}
        path.write_bytes(manifest_bytes({**fields, "topology": None}))
    done = rlctl("replay", "last")
    assert (done.code, done.err.count("\n")) == (4, 1)
    assert "the checkpoint does not fit what its manifest says of the run" in done.err


def test_a_run_without_a_replay(rlctl: Rlctl, trained: Path) -> None:
    done = rlctl("replay", "last", "--runs-dir", trained)
    assert done.code == 2
    assert "has no replay of one policy" in done.err
