"""The zoo: every bundle is whole, and its score lies within the interval of the learning table."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from benchmarks.cells import CELLS
from benchmarks.learning_page import Score
from benchmarks.peers.episodes import play

from benchmarks import learning
from benchmarks import zoo as making
from rlstudio.control.registry.records import is_reference
from rlstudio.delivery import zoo
from rlstudio.delivery.bundle import is_bundle, open_bundle
from rlstudio.delivery.policies import policy_of_bundle
from rlstudio.envs.make import make_single
from support.pages import DOCS, ROOT

INDEX = making.read_index()
CELL = {making.name_of(cell): cell for cell in CELLS}
SMALL = 5_000_000
"""Bytes of all bundles together, at most: they are in every wheel."""


@cache
def goals() -> dict[str, Score]:
    return making.goals()


def test_the_index_names_what_is_there_and_nothing_else() -> None:
    places = {path.parent.relative_to(zoo.FOLDER).as_posix() for path in zoo.FOLDER.rglob("spec.json")}
    assert places == set(INDEX) <= set(CELL)
    files = [path for path in zoo.FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < SMALL


@pytest.mark.parametrize("name", INDEX)
def test_every_bundle_is_whole_and_within_the_interval(name: str) -> None:
    """Of the learning table as it stands; where that has moved: make zoo."""
    entry, bundle = INDEX[name], open_bundle(f"zoo:{name}")
    assert bundle.sha256 == entry["sha256"]
    assert (bundle.spec.env_id, bundle.spec.origin.checkpoint) == (entry["env_id"], entry["env_steps"])
    assert making.is_kept(CELL[name], entry, goals()[CELL[name].key])
    agent = bundle.agent()
    assert agent.spaces.action == bundle.spec.spaces.action


def replayed(name: str, episodes: int) -> list[float]:
    policy = policy_of_bundle(open_bundle(f"zoo:{name}"))
    return play(lambda: policy.agent.episode().act, make_single(policy.cfg.env), episodes, learning.FIRST_SEED)


def test_one_that_never_drops_the_pole_does_so_here() -> None:
    assert replayed("a2c/cartpole", 2) == [500.0, 500.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", INDEX)
def test_a_score_is_what_the_policy_earns(name: str) -> None:
    """Another processor may round a prediction otherwise, which changes single episodes."""
    score = INDEX[name]["score"]
    assert fmean(replayed(name, INDEX[name]["episodes"])) == pytest.approx(score, rel=0.02)


def test_the_page_has_every_policy() -> None:
    rows = [line for line in (DOCS / "zoo.md").read_text().splitlines() if line.startswith("| `zoo:")]
    assert [row.split("`")[1] for row in rows] == [f"zoo:{name}" for name in CELL if name in INDEX]
    for row in rows:
        assert f"| {INDEX[row.split('`')[1].removeprefix('zoo:')]['score']:.1f} |" in row


def test_pages_say_how_many_there_are() -> None:
    for page in (ROOT / "README.md", DOCS / "howto/from-sb3.md"):
        assert re.findall(r"(\d+) policies", page.read_text()) == [str(len(INDEX))], page


def test_what_a_word_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the registry may be called zoo; a folder of that name is given with ./ before it."""
    for version in ("zoo:3", "zoo:production", "zoo:staging"):
        assert is_reference(version)
        assert not is_bundle(version)
    for policy in ("zoo:ppo/cartpole", "zoo:cartpole", "zoo:"):
        assert is_bundle(policy) is not is_reference(policy)
    monkeypatch.chdir(tmp_path)
    assert not is_bundle("./zoo:ppo")
    assert not is_bundle(Path("zoo:ppo"))


def test_seeds_near_the_middle_are_tried_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And none that missed on this machine, nor one more once a seed is kept."""
    known = goals()
    cell = CELL["a2c/acrobot"]
    goal = known[cell.key]
    seeds = making.seeds_of(goal, 7)
    middle = [abs(goal.means[seed] - goal.iqm) for seed in seeds if seed < len(goal.means)]
    assert middle == sorted(middle)
    assert seeds[len(goal.means) :] == list(range(len(goal.means), 7))
    monkeypatch.setattr(making, "TRIED", tmp_path / "tried.jsonl")
    every = making.attempts([cell], known, 3)
    identity = learning.table_identity(making.load_experiment(cell.config))
    line = {"identity": identity, "machine": making.machine()["processor"], "seed": every[0].seed, "score": 0.0}
    learning.append(making.TRIED, line)
    assert making.attempts([cell], known, 3) == every[1:]

    trained, kept = [], []
    monkeypatch.setattr(making, "train", lambda attempt, goal: trained.append(attempt.seed) or {"seed": attempt.seed})
    monkeypatch.setattr(making, "put", lambda attempt, answer: answer)
    monkeypatch.setattr(making, "write_index", kept.append)
    assert making.make_all(every, known, jobs=1) == {cell.key}
    assert trained == [every[0].seed]
    assert kept[0]["a2c/acrobot"] == {"seed": every[0].seed}
    near = replace(goal, low=-85.0, high=-81.0)
    assert [making.is_within(score, near) for score in (-85.0, -81.0, -80.9)] == [True, True, False]
