"""A run at any of its past steps: the state is the one that it had there, whatever it still keeps."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlstudio.core.errors import Diverged, Incompatible, UserError
from rlstudio.data.replay import buffer as replay_module
from rlstudio.experiment.analysis.repeat.rewind import way_to
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.lineage import libraries
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.session import Session
from support.experiments import tiny
from support.repetition import few
from support.sessions import resume, start
from support.tiny_runs import config

STEPS = 50


@pytest.fixture(autouse=True, scope="module")
def short_segments() -> Iterator[None]:
    """A small replay lies in segments too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_module, "SEGMENT_ROWS", 64)
        yield


@dataclass(frozen=True)
class Walked:
    """A run that ended, and what it was on its way: step -> state hash after the first train step that ended there."""

    folder: RunFolder
    hashes: dict[int, str]

    def stands(self, step: int, attempt: int | None = None) -> None:
        """Whether the run is found at this step as it was there."""
        with way_to(self.folder, step, attempt=attempt).open() as moment:
            assert (moment.env_steps, moment.state_hash()) == (step, self.hashes[step])
            assert moment.parted is None


def walk(session: Session, hashes: dict[int, str], until: int | None = None) -> RunFolder:
    with session:
        for tick in session:
            hashes.setdefault(tick.env_steps, state_hash(session.content({})))
            if until is not None and tick.env_steps >= until:
                break
    return session.folder


def walked(cfg: ExperimentConfig, runs_dir: Path) -> Walked:
    hashes: dict[int, str] = {}
    return Walked(walk(start(cfg, runs_dir), hashes), hashes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walked]:
    return {algo: walked(config(algo, "native"), tmp_path_factory.mktemp(algo)) for algo in ("ppo", "dqn", "sac")}


def content_of(folder: RunFolder) -> dict[str, tuple[bytes, int]]:
    files = [path for path in sorted(folder.path.rglob("*")) if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


CASES = [(algo, number) for algo in ("ppo", "dqn", "sac") for number in range(STEPS)]


@pytest.mark.parametrize(("algo", "number"), few(CASES, lambda case: case[1] < 3))
def test_a_random_step_has_the_state_that_it_had(runs: dict[str, Walked], algo: str, number: int) -> None:
    run = runs[algo]
    run.stands(random.Random(f"{algo} {number}").choice(sorted(run.hashes)[:-1]))


def test_nothing_of_the_run_is_written(runs: dict[str, Walked]) -> None:
    run = runs["dqn"]
    before = content_of(run.folder)
    with way_to(run.folder, 700).open() as moment:
        assert moment.env_steps == 700
        moment.advance()
    assert content_of(run.folder) == before


def test_the_next_steps_are_those_of_the_run(runs: dict[str, Walked]) -> None:
    run, passed = runs["ppo"], 0
    with way_to(run.folder, 512).open() as moment:
        for tick in moment:
            assert state_hash(moment.session.content({})) == run.hashes[tick.env_steps]
            passed += 1
        assert passed == len([step for step in run.hashes if step > 512])
        with pytest.raises(UserError, match="it ends at 1,536 steps"):
            moment.advance()


def test_a_step_at_which_no_train_step_ends_is_the_next_one(runs: dict[str, Walked]) -> None:
    with way_to(runs["ppo"].folder, 513).open() as moment:
        assert moment.env_steps == min(step for step in runs["ppo"].hashes if step >= 513)


def test_the_last_step_is_the_last_checkpoint(runs: dict[str, Walked]) -> None:
    folder = runs["ppo"].folder
    with way_to(folder, folder.read_status().env_steps).open() as moment:
        assert moment.state_hash() == folder.read_status().state_hash


def test_beyond_its_end_there_is_nothing(runs: dict[str, Walked]) -> None:
    with pytest.raises(UserError, match=r"it has done 1,536 steps; give --at a step up to that"):
        way_to(runs["ppo"].folder, 1537)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_that_kept_nothing_begins_anew(runs: dict[str, Walked], algo: str, tmp_path: Path) -> None:
    pruned = tmp_path / runs[algo].folder.id
    shutil.copytree(runs[algo].folder.path, pruned)
    for name in ("checkpoints", "segments"):
        shutil.rmtree(pruned / name)
        (pruned / name).mkdir()
    (pruned / "metrics.jsonl").unlink()
    run = Walked(RunFolder(pruned), runs[algo].hashes)
    assert way_to(run.folder, 640).begins == 0
    run.stands(640)


def test_history_keeps_where_to_begin(tmp_path: Path) -> None:
    ckpt = {"every_seconds": None, "keep_last": 1, "history": 2}
    run = walked(config("dqn", "native", ckpt=ckpt), tmp_path)
    kept = {info.step for info in Checkpoints(run.folder.path, run.folder.id, None).list()}
    assert kept >= {epoch * 128 for epoch in range(2, 13, 2)}
    assert way_to(run.folder, 700).begins == 512
    run.stands(700)


OTHER_RUNS = {
    "curriculum": lambda: tiny(
        "ppo",
        train={"epochs": 6, "steps_per_epoch": 128, "rollout_steps": 32},
        curriculum={
            "adr": {
                "parameters": {"length": {"start": [0.5, 0.5], "limits": [0.25, 1.5], "step": 0.1}},
                **{"metric": "length", "widen_at": 15, "narrow_at": 10, "buffer": 2},
            }
        },
    ),
    "self_play": lambda: tiny(
        "ppo",
        env={"id": "rlstudio/TicTacToe-v0", "num_envs": 16},
        train={"epochs": 5, "steps_per_epoch": 128, "rollout_steps": 8, "batch_size": 64},
        self_play={"opponents": {"latest": 1, "past": 2, "random": 1}, "snapshot_every": 1, "pool": 2},
    ),
    "gates": lambda: tiny(
        "ppo",
        train={"epochs": 6, "steps_per_epoch": 64},
        eval={"every_epochs": 1, "episodes": 2},
        gates={"min_return": 0.0, "patience": 3, "plateau": {"epochs": 50}},
    ),
    "sync": lambda: tiny("ppo", env={"vectorization": "sync"}, train={"epochs": 5, "steps_per_epoch": 64}),
    "workers": lambda: tiny(
        "ppo", train={"epochs": 4, "steps_per_epoch": 64}, rollout={"workers": 2, "backend": "local"}
    ),
    "recurrent": lambda: tiny(
        "ppo", policy={"network": {"memory": "gru"}}, train={"epochs": 4, "steps_per_epoch": 64, "sequence_length": 8}
    ),
}


@pytest.mark.parametrize("kind", few(OTHER_RUNS, ["curriculum", "self_play", "gates"].__contains__))
def test_all_that_a_run_knows_is_there(kind: str, tmp_path: Path) -> None:
    run = walked(OTHER_RUNS[kind](), tmp_path)
    steps = sorted(run.hashes)[:-1]
    for step in random.Random(kind).sample(steps, min(4, len(steps))):
        run.stands(step)


def test_a_run_that_was_extended_is_extended_again(tmp_path: Path) -> None:
    """By a schedule that knows the end of the run."""
    hashes: dict[int, str] = {}
    short = {"epochs": 4, "steps_per_epoch": 128, "rollout_steps": 16, "batch_size": 32, "lr_schedule": "linear"}
    ckpt = {"every_seconds": None, "keep_last": 1, "keep_best": False}
    cfg = config("ppo", "native", train=short, ckpt=ckpt, guardrails={"rollback_every_epochs": 100})
    folder = walk(start(cfg, tmp_path), hashes)
    walk(resume(folder, ["train.epochs=9"]), hashes, until=800)
    walk(resume(folder, ["train.epochs=10"]), hashes)
    run = Walked(folder, hashes)
    for step in (128, 640, 800, 1056):
        assert way_to(folder, step).begins == 0
        run.stands(step)


def roll_back_after(monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
    """The first attempts diverge at the end of epoch 8."""
    judge = Guardrails.judge

    def judged(self, report, trainer):
        later = re.search(r"attempt-(\d+)", trainer.source.collector._noise.rng.path)
        attempt = int(later[1]) if later else 0
        return "a made-up reason" if report.epoch == 8 and attempt < attempts else judge(self, report, trainer)

    monkeypatch.setattr(Guardrails, "judge", judged)


def test_past_a_roll_back_there_are_two_pasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roll_back_after(monkeypatch, 1)
    hashes: dict[tuple[int, int], str] = {}
    ckpt = {"every_seconds": None, "keep_last": 1}
    with start(config("ppo", "native", ckpt=ckpt), tmp_path) as session:
        for tick in session:
            hashes[session.attempt, tick.env_steps] = state_hash(session.content({}))
    folder = session.folder
    for step, attempt in ((384, 0), (640, 0), (768, 1), (960, 1), (1280, 1)):
        with way_to(folder, step).open() as moment:
            assert moment.session.attempt == attempt
            assert moment.state_hash() == hashes[attempt, step]
            assert moment.parted is None
    with way_to(folder, 960, attempt=0).open() as moment:
        assert moment.state_hash() == hashes[0, 960]
        assert moment.check is None
        assert moment.trainer.train_step()
    with pytest.raises(UserError, match=r"attempt 0 was rolled back by the train step .* 992; restore that step"):
        way_to(folder, 1024, attempt=0).open()
    with pytest.raises(UserError, match="attempt 2: it was rolled back up to attempt 1; give 0 to 1"):
        way_to(folder, 900, attempt=2)


def test_the_end_of_a_run_that_diverged_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roll_back_after(monkeypatch, 9)
    cfg = config("ppo", "native", guardrails={"rollback_every_epochs": 5, "max_rollbacks": 0})
    with start(cfg, tmp_path) as session, pytest.raises(Diverged):
        for _ in session:
            pass
    with way_to(session.folder, 1024).open() as moment:
        assert moment.env_steps == 1024


def test_a_fork_begins_where_it_does(runs: dict[str, Walked], tmp_path: Path) -> None:
    from rlstudio.experiment.config.experiment import new_run
    from rlstudio.experiment.run.load import read_config

    parent = runs["dqn"]
    cfg = read_config(parent.folder)
    child = RunFolder.create(tmp_path, new_run(cfg))
    with FileLease(child.path) as lease:
        begun = copy_checkpoint(parent.folder, "best", child, lease)
    walk(resume(child), {})
    run = Walked(child, parent.hashes)
    run.stands(begun.step + 128)
    with pytest.raises(UserError, match=f"it begins at .* look there: rlctl rewind {parent.folder.id} --at 100"):
        way_to(child, 100)


def test_what_a_run_did_inexactly_is_not_promised(tmp_path: Path) -> None:
    hashes: dict[int, str] = {}
    ckpt = {"every_seconds": None, "keep_last": 1}
    folder = walk(start(config("ppo", "native", ckpt=ckpt), tmp_path), hashes, until=256)
    text = folder.config_path.read_text()
    folder.config_path.write_text(text.replace("clip: 0.2", "clip: 0.1"))
    walk(resume(folder, allow_inexact=True), hashes)
    with pytest.raises(UserError, match=r"at 256 steps it went on inexactly \(config.yaml was edited\)"):
        way_to(folder, 500)
    with way_to(folder, 500, allow_inexact=True).open() as moment:
        assert moment.env_steps == 512
    Walked(folder, hashes).stands(1408 + 32)  # from the checkpoint of the best evaluation or the roll-back grid


def test_another_topology_is_refused(runs: dict[str, Walked], monkeypatch: pytest.MonkeyPatch) -> None:
    version = libraries.version
    monkeypatch.setattr(libraries, "version", lambda name: "0.1" if name == "numpy" else version(name))
    way = way_to(runs["ppo"].folder, 512)
    with pytest.raises(Incompatible, match=r"that step cannot be restored exactly \(numpy .* -> 0.1\)"):
        way.open()
    with way_to(runs["ppo"].folder, 512, allow_inexact=True).open() as moment:
        assert moment.parted is None  # it is another number, but the same library


def test_a_copy_that_comes_to_something_else_says_so(runs: dict[str, Walked], monkeypatch: pytest.MonkeyPatch) -> None:
    from rlstudio.algos import ppo

    loss = ppo.ppo_loss

    def changed(model, batch, cfg, group):
        total, *others = loss(model, batch, cfg, group)
        return total * 1.0001, *others

    monkeypatch.setattr(ppo, "ppo_loss", changed)
    with way_to(runs["ppo"].folder, 600).open() as moment:
        assert moment.parted is not None
        assert moment.parted.step > 0
