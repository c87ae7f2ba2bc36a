"""The ten mistakes that a newcomer makes, and what each answer says to do: it is done here, and it works."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from rlstudio.cli.app import main
from rlstudio.control.runs.start import start_session
from rlstudio.control.workspace import Workspace
from rlstudio.experiment.config.experiment import load_experiment
from rlstudio.experiment.run.evaluations import RunEvaluations
from rlstudio.experiment.run.signals import Interrupted
from rlstudio.storage.failpoint import Operation, restart
from support.cli_scenario import TINY, Result, Rlctl

LAUNCH = ("launch", "-f", "tiny.yaml", "-q")


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into the queue stays there: a worker and its runs would outlive the test."""
    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", lambda workspace: None)


def suggested(answer: Result) -> str:
    """The word after `did you mean`."""
    match = re.search(r"did you mean '?([\w./-]+)'?\?", answer.err)
    assert match is not None, answer.err
    return match[1]


def command(answer: Result, name: str) -> list[str]:
    """The `rlctl` command of this name that the answer says to type."""
    match = re.search(rf"rlctl ({name} [^;,\n]*)", answer.err)
    assert match is not None, answer.err
    return shlex.split(match[1])


def refused(answer: Result, code: int = 2) -> Result:
    assert (answer.code, answer.err.count("\n")) == (code, 1), answer
    return answer


def test_1_a_wrong_environment_id(rlctl: Rlctl) -> None:
    answer = refused(rlctl(*LAUNCH, "env.id=cartpole-v1"))
    assert rlctl(*LAUNCH, f"env.id={suggested(answer)}", "--dry-run").code == 0


def test_2_an_algorithm_for_other_actions_names_those_that_fit(rlctl: Rlctl, place: Path) -> None:
    """Newcomer S3: the answer sent to `rlctl algos`, which does not say which actions an algorithm takes."""
    answer = refused(rlctl(*LAUNCH, "env.id=Pendulum-v1", "policy.algo=dqn", "train={epochs: 1}"))
    named = re.search(r"choose one of ([\w, ]+) \(rlctl algos\)", answer.err)
    assert named is not None, answer.err
    assert named[1].split(", ") == ["a2c", "diffusion", "mbmpc", "ppo", "sac", "td3"]
    assert not (place / "runs").exists()
    for algo in named[1].split(", "):
        data = {**yaml.safe_load(TINY), "train": {"epochs": 1}, "env": {"id": "Pendulum-v1", "num_envs": 4}}
        (place / "fits.yaml").write_text(yaml.safe_dump({**data, "policy": {"algo": algo}}))
        assert rlctl("launch", "-f", "fits.yaml", "--detach", "-q").code == 0  # everything was built, nothing trained


def test_3_a_misspelt_key(rlctl: Rlctl, place: Path) -> None:
    (place / "bad.yaml").write_text(TINY.replace("num_envs:", "num_env:"))
    answer = refused(rlctl("launch", "-f", "bad.yaml"))
    assert "bad.yaml:4:3: env.num_env: unknown key" in answer.err
    (place / "bad.yaml").write_text(TINY.replace("num_envs:", f"{suggested(answer)}:"))
    assert rlctl("launch", "-f", "bad.yaml", "--dry-run").code == 0


def test_4_a_text_for_a_number_and_a_number_below_zero(rlctl: Rlctl, place: Path) -> None:
    data = yaml.safe_load(TINY)
    (place / "bad.yaml").write_text(yaml.safe_dump({**data, "train": {**data["train"], "lr": -1.0, "epochs": "many"}}))
    answer = rlctl("launch", "-f", "bad.yaml")
    assert answer.code == 2
    assert re.search(r"bad\.yaml:\d+:\d+: train\.lr: .*greater than 0", answer.err)
    assert re.search(r"bad\.yaml:\d+:\d+: train\.epochs: expected a whole number", answer.err)
    assert rlctl("launch", "-f", "bad.yaml", "train.lr=1e-3", "train.epochs=2", "--dry-run").code == 0


def test_5_an_extra_that_is_not_installed(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "Box2D", None)
        answer = refused(rlctl("check", "LunarLander-v3"))
    assert "env.id: LunarLander-v3 needs Box2D; run `" in answer.err
    typed = shlex.split(re.findall(r"`([^`]*)`", answer.err)[0])
    if typed[0] == "pip":  # what it would install is what is there now, and with it the environment is
        (wanted,) = map(Requirement, typed[2:])
        assert wanted.specifier.contains(version(wanted.name))
    else:
        assert typed[0] == "make"
        assert typed[-1] == "setup-envs"
    assert rlctl("check", "LunarLander-v3").code == 0


def test_6_a_resume_of_a_run_that_is_running(rlctl: Rlctl) -> None:
    endless = "train.epochs=1000000"  # a run of this process reads the request at its next heartbeat, seconds later
    workspace = Workspace(Path("runs"))
    with start_session(workspace, load_experiment("tiny.yaml", [endless])) as session:
        ticks = iter(session)
        next(ticks)
        answer = refused(rlctl("resume", session.folder.id))
        assert f"process {os.getpid()} on" in answer.err
        stop = threading.Thread(target=main, args=[command(answer, "stop")])
        stop.start()
        with pytest.raises(Interrupted):
            for _ in ticks:
                pass
    stop.join()
    assert rlctl("resume", session.folder.id, endless, "-q", "--detach").code == 0


def test_7_two_runs_of_one_name_are_told_apart_by_their_ids(rlctl: Rlctl) -> None:
    older, newer = (rlctl(*LAUNCH, "train.epochs=1", "--detach").out.strip() for _ in range(2))
    listed = [row["id"] for row in rlctl("ls", "--json").document]
    assert sorted(listed) == sorted([older, newer])
    assert [run["id"] for run in rlctl("show", "tiny", "--json").document] == [older, newer]
    answer = refused(rlctl("fork", "tiny"))
    assert f"2 runs have this name ({older[-4:]}, {newer[-4:]}); name one of them" in answer.err
    assert rlctl("show", older[-4:], "--json").document["id"] == older


@pytest.fixture
def during_evaluation(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Something that happens once, while the first evaluation of a run plays."""

    def happens(event: Callable[[], object]) -> None:
        evaluate, left = RunEvaluations._run, [event]

        def disturbed(self: RunEvaluations, *args: object) -> object:
            if left:
                left.pop()()
            return evaluate(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(RunEvaluations, "_run", disturbed)

    return happens


def test_8_ctrl_c_during_an_evaluation_says_how_to_go_on(
    rlctl: Rlctl, during_evaluation: Callable[[Callable[[], object]], None]
) -> None:
    """Newcomer S3: it was silent."""
    during_evaluation(lambda: signal.raise_signal(signal.SIGINT))
    answer = refused(rlctl(*LAUNCH), 130)
    assert "stopped by SIGINT" in answer.err
    assert rlctl(*command(answer, "resume"), "-q").code == 0


def test_9_deleting_the_folder_of_a_run_in_training(
    rlctl: Rlctl, place: Path, during_evaluation: Callable[[Callable[[], object]], None]
) -> None:
    """Newcomer S3: it spoke of another process. Put back, the run goes on by the command of the line."""

    def remove() -> None:
        (folder,) = Path("runs").glob("2*")
        shutil.move(folder, place / "away")

    during_evaluation(remove)
    answer = refused(rlctl(*LAUNCH), 3)
    assert "the folder of the run is gone" in answer.err
    resume = command(answer, "resume")
    shutil.move(place / "away", place / "runs" / resume[1])
    assert rlctl(*resume, "-q").code == 0


def test_10_a_full_disk(rlctl: Rlctl, during_evaluation: Callable[[Callable[[], object]], None]) -> None:
    def full(operation: Operation) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    during_evaluation(lambda: restart(full))
    try:
        answer = refused(rlctl(*LAUNCH), 3)
    finally:
        restart()
    assert "the disk is full; free some space, then resume the run" in answer.err
    assert rlctl("resume", "last", "-q").code == 0
    assert rlctl("show", "last", "--json").document["state"] == "COMPLETED"
