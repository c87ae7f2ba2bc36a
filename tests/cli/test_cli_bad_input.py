"""A mistake is answered by exit code 2 and one line that says what to do; nothing is written."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.cli_scenario import Rlctl, everything

MISTAKES = {
    "lunch": "did you mean 'launch'",
    "--versio": "--version",
    "launch --sed 3": "--seed",
    "launch": "give a file with -f FILE",
    "launch -f": "requires an argument",
    "launch --algo ppo": "needs an environment",
    "launch --env CartPole-v1": "--algo ALGO",
    "launch -f tiny.yaml --algo ppo": "policy.algo=",
    "launch tiny.yaml": "rlctl launch -f tiny.yaml",
    "launch -f nothing.yaml": "no such file",
    "launch -f configs/ppo/cartpol.yaml": "did you mean configs/ppo/cartpole.yaml",
    "launch -f configs/ppo/quickstart.yaml eval.every_epochs=0": "gates.stop_at: evaluations during training decide it",
    "launch -f .": "directory",
    "run": "missing argument 'FILE'",
    "launch -f tiny.yaml --seeds 0": "'--seeds': expected 1 to 1000, got 0; see: rlctl launch --help",
    "launch -f tiny.yaml --seeds many": "'--seeds': expected a whole number, got 'many'; see: rlctl launch --help",
    "launch -f tiny.yaml --seed -1": "env.seed",
    "launch -f tiny.yaml --seed 4294967295 --seeds 2": "4294967295 or less",
    "launch -f tiny.yaml --name a/b": "letters, digits",
    "launch -f tiny.yaml --name last": "choose another name",
    "launch -f tiny.yaml --import no_such_module": "No module named",
    "launch -f tiny.yaml imports=[os]": "only --import",
    "launch -f tiny.yaml policy.network.hidden_sizes=[1000000000]": "a layer of 4 x 1,000,000,000 has 4,000,000,000",
    "launch -f tiny.yaml policy.network.memory=gru policy.network.memory_size=65536": "weights; at most 1,000,000,000",
    "launch -f tiny.yaml train.clipp=0.1": "did you mean clip?",
    "launch -f tiny.yaml trian.lr=1": "did you mean train?",
    "launch -f tiny.yaml lr=1e-3": "did you mean train.lr?",
    "launch -f tiny.yaml train.lr=fast": "train.lr",
    "launch -f tiny.yaml train.lr=.nan": "finite",
    "launch -f tiny.yaml train.lr": "section.key=value",
    "launch -f tiny.yaml policy.algo=pppo": "did you mean ppo?",
    "launch -f tiny.yaml env.id=CartPol-v1": "did you mean CartPole-v1?",
    "launch -f tiny.yaml env.id=os:system": "os:system is no class of gymnasium.Env",
    "launch --algo pp0 --env CartPole-v1": "did you mean ppo?",
    "launch --algo ppo --env CartPol-v1": "did you mean CartPole-v1?",
    "launch --algo dqn --env Pendulum-v1": "needs Discrete actions",
    "launch --algo ppo --env CartPol-v1 --dry-run": "did you mean CartPole-v1?",
    "launch -f tiny.yaml train.steps_per_epoch=1000000000": "lower it",
    "launch -f tiny.yaml runtime.device=cuda:999": "not available on this machine",
    "launch -f tiny.yaml runtime.device=cuda:999 --dry-run": "not available on this machine",
    "launch -f tiny.yaml --runs-dir tiny.yaml": "tiny.yaml",
    "launch -f tiny.yaml --runs-dir s3://bucket/runs --dry-run": "mount a shared folder",
    "launch -f tiny.yaml --runs-dir tiny.yaml/below": "tiny.yaml",
    "launch -f twice.yaml": "twice.yaml",
    "show": "no run is named; give RUN",
    "show nobody": "there are no runs",
    "logs nobody": "there are no runs",
    "stop nobody": "there are no runs",
    "resume": "there are no runs",
    "resume nobody": "there are no runs",
    "rm nobody --yes": "there are no runs",
    "eval nobody": "there are no runs",
    "plot nobody": "there are no runs",
    "play nobody --video a.mp4": "there are no runs",
    "play nobody --video a.txt": ".mp4 or .webp",
    "play nobody": "there are no runs",
    "plot nobody -o a.txt": ".png or .svg",
    "show ../../etc": "there are no runs",
    "ls --limit -1": "expected 0 or more, got -1",
    "ls extra": "there are no runs in runs yet",
    "eval nobody --episodes 0": "--episodes",
    "eval nobody --checkpoint": "requires an argument",
    "schema --algo pp0": "did you mean ppo?",
    "check CartPol-v1": "did you mean CartPole-v1?",
    "check os:system": "os:system is no class of gymnasium.Env",
    "check CartPole-v1 train.lr=1": "only settings of the environment count here",
    "check CartPole-v1 -f tiny.yaml": "give an environment, or an experiment with -f FILE",
    "check CartPole-v1 --import drone_env.txt/": "is no Python file",
    "envs --import no_such_module": "No module named",
    "launch -f tiny.yaml env.num_envs=512 env.workers=512 env.vectorization=async train.steps_per_epoch=512": (
        "env.workers: 512 processes need at least 12.5 GiB, this one may use 8.0; lower it"
    ),
    "launch -f tiny.yaml env.num_envs=1024 rollout.workers=1024 train.steps_per_epoch=1024": (
        "rollout.workers: 1,024 processes need at least 10.0 GiB"
    ),
    "launch -f tiny.yaml env.num_envs=128 runtime.learners=128 train.batch_size=128 train.steps_per_epoch=128": (
        "runtime.learners: 128 processes need at least 12.5 GiB"
    ),
}


@pytest.mark.usefixtures("eight_gigabytes")
@pytest.mark.parametrize("command", MISTAKES)
def test_one_line_exit_code_2_nothing_written(command: str, rlctl: Rlctl, place: Path) -> None:
    (place / "twice.yaml").write_text("env: {id: CartPole-v1}\nenv: {id: Acrobot-v1}\n")
    before = everything(place)
    result = rlctl(*shlex.split(command))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("rlctl: ")
    assert result.err.count("\n") == 1
    assert result.err.endswith("\n")
    assert MISTAKES[command] in result.err
    assert everything(place) == before


def test_every_problem_of_a_file_is_named(rlctl: Rlctl, place: Path) -> None:
    (place / "bad.yaml").write_text("env: {id: CartPole-v1, num_env: 3}\npolicy: {algo: ppo}\ngates: {patience: 0}\n")
    result = rlctl("launch", "-f", "bad.yaml")
    assert result.code == 2
    first, second = result.err.splitlines()
    assert first.startswith("rlctl: bad.yaml:1:")
    assert "did you mean num_envs?" in first
    assert second.startswith("rlctl: bad.yaml:3:")


def run_in(place: Path, state: RunState = RunState.INTERRUPTED, name: str = "some") -> RunFolder:
    folder = RunFolder.create(
        place / "runs", NewRun(name=name, algo="ppo", env_id="CartPole-v1", config_yaml="{}"), state=state
    )
    folder.close()
    return folder


def test_an_ambiguous_beginning_names_the_candidates(rlctl: Rlctl, place: Path) -> None:
    one, other = run_in(place), run_in(place)
    result = rlctl("show", one.id[:2])
    assert result.code == 2
    assert one.id in result.err
    assert other.id in result.err


def test_a_name_that_is_nearly_right(rlctl: Rlctl, place: Path) -> None:
    run_in(place, name="carthorse")
    assert "did you mean carthorse?" in rlctl("show", "carthors").err


def test_what_does_not_run_cannot_be_stopped(rlctl: Rlctl, place: Path) -> None:
    folder = run_in(place)
    result = rlctl("stop", "last")
    assert result.code == 2
    assert result.err == f"rlctl: run {folder.id}: is not running (INTERRUPTED); there is nothing to stop\n"


def test_a_running_run_is_not_removed(rlctl: Rlctl, place: Path) -> None:
    idle, busy = run_in(place), run_in(place, RunState.RUNNING)  # the owner is this very process
    result = rlctl("rm", idle.id, busy.id, "--yes")
    assert result.code == 2
    assert "rlctl stop" in result.err
    assert idle.path.exists()
    assert busy.path.exists()


def test_rm_does_not_guess_when_nobody_can_answer(rlctl: Rlctl, place: Path) -> None:
    folder = run_in(place)
    result = rlctl("rm", "last")
    assert result.code == 2
    assert "--yes" in result.err
    assert folder.path.exists()


def test_a_run_of_another_host_is_not_signalled(rlctl: Rlctl, place: Path) -> None:
    folder = run_in(place, RunState.RUNNING)
    folder.write_status(dataclasses.replace(folder.read_status(), host="elsewhere"))
    result = rlctl("stop", "last")
    assert result.code == 2
    assert "elsewhere" in result.err


def test_only_the_length_of_a_run_can_change(rlctl: Rlctl, trained: Path) -> None:
    result = rlctl("resume", "last", "train.lr=1", "--runs-dir", trained)
    assert result.code == 2
    assert "only train.epochs" in result.err


def test_a_finished_run_says_how_to_extend_it(rlctl: Rlctl, trained: Path) -> None:
    result = rlctl("resume", "--runs-dir", trained)
    assert result.code == 2
    assert "train.epochs=6" in result.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("eval last --checkpoint 7", "it has: last, best, 192, 128"),
        ("plot last --metric train/kll", "did you mean train/kl?"),
        ("play last --video .", "must end with"),
    ],
)
def test_mistakes_about_a_trained_run(command: str, words: str, rlctl: Rlctl, trained: Path) -> None:
    result = rlctl(*shlex.split(command), "--runs-dir", trained)
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
