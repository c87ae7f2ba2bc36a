"""Training from the command line, end to end in this process: launch, resume, several seeds, what is printed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from rlstudio.cli.screen.summary import activation
from rlstudio.core.catalog import ALGOS
from rlstudio.core.errors import Diverged, EnvFault, StorageError
from rlstudio.experiment.config.presets import FOLDER, presets
from rlstudio.experiment.run.session import Session
from support.cli_scenario import Rlctl, everything

pytestmark = pytest.mark.usefixtures("one_core")

MODULE = """\
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

gymnasium.register("Mine-v0", entry_point=CartPoleEnv, max_episode_steps=20)
"""

BROKEN_MODULE = """\
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Odd(CartPoleEnv):
    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float("nan"), terminated, truncated, info


gymnasium.register("Odd-v0", entry_point=Odd, max_episode_steps=20)
"""


def test_a_launch_says_what_it_is_and_what_to_do_next(rlctl: Rlctl, place: Path) -> None:
    result = rlctl("launch", "-f", "tiny.yaml")
    assert (result.code, result.err) == (0, "")
    run = rlctl("show", "last", "--json").document
    for words in (
        run["id"],
        "tiny: tiny.yaml",
        run["config_hash"][:12],
        "CartPole-v1 (native world for training, Gymnasium for evaluation), 4 envs, seed 3",
        "cpu, 1 thread",
        "epoch 1/3  64 steps  33 %",
        "epoch 3/3  192 steps  100 %",
        "policy_loss",
        "over 3 episodes",
        str(Path("runs") / run["id"]),
        f"rlctl eval {run['id']}",
        f"rlctl play {run['id']} --video",
        f"rlctl plot {run['id']}",
        f"rlctl resume {run['id']} train.epochs=6",
    ):
        assert words in result.out
    assert "completed   192 steps in " in result.out
    assert "\x1b" not in result.out
    assert (Path(run["path"]) / "stdout.log").read_text() == result.out


def test_a_shell_that_does_not_know_the_program_is_told_how_to_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = Path("venv/bin")
    bin_folder.mkdir(parents=True)
    (bin_folder / "activate").touch()
    monkeypatch.setattr(sys, "executable", str(bin_folder.resolve() / "python"))
    monkeypatch.setenv("PATH", str(Path.cwd()))
    assert activation() == ["  source venv/bin/activate"]
    (Path("rlctl")).touch(mode=0o755)
    assert activation() == []


def test_json_is_one_document_and_progress_goes_to_the_other_stream(rlctl: Rlctl) -> None:
    result = rlctl("launch", "-f", "tiny.yaml", "--json")
    assert result.code == 0
    assert result.document["state"] == "COMPLETED"
    assert result.document["evaluation"]["n"] == 3
    assert result.document["eval_return"] == result.document["evaluation"]["mean"]
    assert "epoch 3/3" in result.err


def test_quiet_prints_only_the_id(rlctl: Rlctl) -> None:
    result = rlctl("launch", "-f", "tiny.yaml", "-q")
    assert (result.code, result.err) == (0, "")
    assert result.out == rlctl("show", "last", "--json").document["id"] + "\n"
    assert rlctl("launch", "-f", "tiny.yaml", "-q", "--json").err == ""


def test_run_is_launch_with_a_file(rlctl: Rlctl) -> None:
    arguments = ["train.lr=1e-3", "--name", "other", "--seed", "9", "--dry-run"]
    assert rlctl("run", "tiny.yaml", *arguments) == rlctl("launch", "-f", "tiny.yaml", *arguments)


def test_a_rehearsal_prints_the_configuration_and_writes_nothing(rlctl: Rlctl, place: Path) -> None:
    before = everything(place)
    result = rlctl("launch", "-f", "tiny.yaml", "--dry-run", "--seed", 9, "--name", "123", "train.lr=1e-3")
    assert (result.code, result.err) == (0, "")
    config = yaml.safe_load(result.out)
    assert (config["name"], config["env"]["seed"], config["train"]["lr"]) == ("123", 9, 1e-3)
    assert config["eval"]["every_epochs"] == 2
    document = rlctl("launch", "-f", "tiny.yaml", "--dry-run", "--json", "--seeds", 2).document
    assert set(document) == {"origin", "config_hash", "seeds", "config"}
    assert document["seeds"] == [3, 4]
    assert everything(place) == before


def test_the_rehearsed_configuration_gives_the_same_run(rlctl: Rlctl, place: Path) -> None:
    (place / "again.yaml").write_text(rlctl("launch", "-f", "tiny.yaml", "--dry-run").out)
    one = rlctl("launch", "-f", "tiny.yaml", "-q", "--json").document
    other = rlctl("launch", "-f", "again.yaml", "-q", "--json").document
    assert one["config_hash"] == other["config_hash"]
    assert one["state_hash"] == other["state_hash"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algo", "ppo", "--env", "CartPole-v1"], "configs/ppo/cartpole.yaml, the preset for ppo on CartPole-v1"),
        (["--algo", "dqn", "env.id=Acrobot-v1"], "configs/dqn/acrobot.yaml, the preset for dqn on Acrobot-v1"),
        (["--algo", "ppo", "--env", "rlstudio/Chain-v0"], "defaults of ppo; there is no preset for rlstudio/Chain-v0"),
        (["-f", "configs/dqn/cartpole.yaml"], "configs/dqn/cartpole.yaml"),
    ],
)
def test_it_says_where_the_experiment_comes_from(arguments: list[str], words: str, rlctl: Rlctl) -> None:
    result = rlctl("launch", *arguments, "--dry-run")
    assert result.code == 0, result.err
    assert result.out.splitlines()[0] == f"# {words}"


def test_several_seeds_and_what_they_say_together(rlctl: Rlctl) -> None:
    result = rlctl("launch", "-f", "tiny.yaml", "--seeds", 3, "--json", "-q")
    assert result.code == 0
    runs, summary = result.document["runs"], result.document["summary"]
    assert [run["seed"] for run in runs] == [3, 4, 5]
    assert len({run["config_hash"] for run in runs}) == 1
    assert len({run["state_hash"] for run in runs}) == 3
    returns = [run["eval_return"] for run in runs]
    assert summary["seeds"] == 3
    assert min(returns) <= summary["ci_low"] <= summary["iqm"] <= summary["ci_high"] <= max(returns)
    single = rlctl("launch", "-f", "tiny.yaml", "--seed", 4, "--json", "-q").document
    assert single["state_hash"] == runs[1]["state_hash"]


def test_the_table_over_seeds(rlctl: Rlctl) -> None:
    out = rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "train.epochs=1").out
    assert "IQM" in out
    assert "over 2 seeds" in out
    assert "seed  state      steps" in out
    *_, last = out.splitlines()
    assert last.startswith("try next: rlctl plot ")
    assert rlctl(*last.removeprefix("try next: rlctl ").split(), "--metric", "train/kl").code == 0


def test_a_gate_that_fails(rlctl: Rlctl) -> None:
    result = rlctl("launch", "-f", "tiny.yaml", "gates.min_return=1000", "--json", "-q")
    assert result.code == 7
    assert result.document["state"] == "FAILED"
    assert result.document["reason"] == "gate_failed"
    assert result.err.count("\n") == 1
    assert result.document["id"] in result.err


def test_one_bad_seed_does_not_stop_the_others(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Session._finish

    def unlucky(self: Session) -> None:
        if self.cfg.env.seed == 3:
            raise Diverged("epoch 3: bad luck")
        finish(self)

    monkeypatch.setattr(Session, "_finish", unlucky)
    result = rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "-q", "--json")
    assert result.code == 6
    assert [run["state"] for run in result.document["runs"]] == ["FAILED", "COMPLETED"]


def test_a_full_disk_stops_all_seeds(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Session) -> None:
        raise StorageError("runs: the disk is full")

    monkeypatch.setattr(Session, "_finish", full)
    result = rlctl("launch", "-f", "tiny.yaml", "--seeds", 3, "-q", "--json")
    assert result.code == 3
    ends = [(run["state"], run["reason"]) for run in result.document["runs"]]
    assert ends == [("INTERRUPTED", "storage"), *[("INTERRUPTED", "paused")] * 2], "the others can be resumed"
    assert "held back 2 more of the 3 runs; go on with all that is left: rlctl resume tiny" in result.err


def test_an_environment_that_breaks_is_named(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Session) -> None:
        raise EnvFault("env 3 broke")

    monkeypatch.setattr(Session, "_finish", broken)
    result = rlctl("launch", "-f", "tiny.yaml", "-q")
    assert result.code == 5
    assert "env 3 broke" in result.err


@pytest.mark.parametrize(
    "culprit", ["rlstudio.cli.screen.live.progress.Progress.line", "rlstudio.experiment.run.session.Session._finish"]
)
def test_a_defect_of_ours_leaves_its_traceback_in_the_run(
    culprit: str, rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(self: object) -> None:
        raise RuntimeError("never\nmind")

    monkeypatch.setattr(culprit, defect)
    result = rlctl("launch", "-f", "tiny.yaml")
    assert result.code == 1
    assert result.err.count("\n") == 1
    assert "internal error: RuntimeError" in result.err
    path = Path(result.err.rstrip().rpartition(" is in ")[2])
    assert "defect" in path.read_text()
    monkeypatch.undo()
    monkeypatch.chdir(place)
    assert rlctl("resume").code == 0


def test_developers_can_see_the_traceback(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSTUDIO_DEBUG", "1")
    result = rlctl("show", "nobody")
    assert result.code == 2
    assert "Traceback" in result.err


def test_a_defect_outside_a_run(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstudio.control.workspace.Workspace.entries", lambda *_: 1 / 0)
    result = rlctl("ls")
    assert (result.code, result.out) == (1, "")
    assert (
        result.err == "rlctl: internal error: ZeroDivisionError: division by zero; set RLSTUDIO_DEBUG=1 to see where\n"
    )


def test_a_longer_run_is_the_extended_one(rlctl: Rlctl) -> None:
    rlctl("launch", "-f", "tiny.yaml", "-q", "train.lr_schedule=constant")
    extended = rlctl("resume", "train.epochs=5", "-q", "--json").document
    longer = rlctl("launch", "-f", "tiny.yaml", "-q", "--json", "train.lr_schedule=constant", "train.epochs=5").document
    assert extended["epoch"] == longer["epoch"] == 5
    assert extended["config_hash"] == longer["config_hash"]
    assert extended["checkpoints"][-1]["step"] == longer["checkpoints"][-1]["step"]


def test_extending_a_linear_schedule_says_so(rlctl: Rlctl) -> None:
    first = rlctl("launch", "-f", "tiny.yaml", "-q").out.strip()
    result = rlctl("resume", first, "train.epochs=4")
    assert result.code == 0
    assert "extended to 4 epochs (the learning rate now reaches zero at the new end)" in result.out
    assert "goes on     from 192 steps, epoch 3" in result.out


def test_an_imported_module_is_there_again_for_every_command(
    rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "my_worlds_for_launch.py").write_text(MODULE)
    result = rlctl("launch", "--import", "my_worlds_for_launch", "-f", "tiny.yaml", "env.id=Mine-v0", "-q")
    assert (result.code, result.err) == (0, "")
    config = yaml.safe_load((place / "runs" / result.out.strip() / "config.yaml").read_text())
    assert config["imports"] == ["my_worlds_for_launch"]
    assert rlctl("eval", "last", "--episodes", 2).code == 0
    assert rlctl("resume", "train.epochs=4", "-q").code == 0
    (place / "my_worlds_for_launch.py").write_text("raise ValueError('out of\\norder')")
    monkeypatch.delitem(sys.modules, "my_worlds_for_launch")
    broken = rlctl("eval", "last")
    assert broken.code == 2
    assert broken.err == (
        f"rlctl: run {result.out.strip()}: launched with --import my_worlds_for_launch: ValueError: out of order;"
        " correct the module\n"
    )


def test_evaluation_for_people_and_programs(rlctl: Rlctl, trained: Path) -> None:
    result = rlctl("eval", "last", "--episodes", 3, "--runs-dir", trained)
    assert "IQM" in result.out
    assert "95 % interval" in result.out
    document = rlctl("eval", "tiny", "--episodes", 3, "--json", "--runs-dir", trained).document
    assert {"id", "checkpoint", "seed", "episodes", "env_id", "returns", "lengths", "seeds", "summary"} <= set(document)
    assert document["checkpoint"] == 192
    assert len(document["returns"]) == 3
    assert set(document["summary"]) == {"n", "mean", "std", "median", "iqm", "ci_low", "ci_high", "min", "max"}
    run = rlctl("show", "last", "--json", "--runs-dir", trained).document
    assert document["summary"]["mean"] == run["eval_return"]  # the same episodes as at the end of the run
    best = rlctl("eval", "last", "--checkpoint", "best", "--json", "--runs-dir", trained).document
    assert best["checkpoint"] == 128
    other = rlctl("eval", "last", "--checkpoint", "128", "--seed", 77, "--json", "--runs-dir", trained).document
    assert (other["checkpoint"], other["seed"]) == (128, 77)
    assert other["seeds"] != best["seeds"]


def test_reading_changes_nothing(rlctl: Rlctl, trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    for command in ("show", "logs", "eval", "plot"):
        assert rlctl(command, "last", "--runs-dir", trained).code == 0
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_a_film(rlctl: Rlctl, trained: Path, place: Path) -> None:
    result = rlctl("play", "last", "--video", "out.mp4", "--runs-dir", trained, "--json")
    assert result.code == 0, result.err
    document = result.document
    assert Path(document["path"]).stat().st_size > 1000
    evaluation = rlctl("eval", "last", "--episodes", 1, "--json", "--runs-dir", trained).document
    assert (document["returns"], document["seeds"]) == (evaluation["returns"], evaluation["seeds"])
    bare = rlctl("play", "last", "--video", "--choose", "best", "--runs-dir", trained)
    assert bare.out.startswith("tiny.mp4: "), bare.err
    assert (place / "tiny.mp4").stat().st_size > 1000


def test_curves_in_the_terminal_and_as_a_picture(rlctl: Rlctl, trained: Path, place: Path) -> None:
    result = rlctl("plot", "last", "--metric", "eval/return_mean", "--runs-dir", trained)
    assert result.out.startswith("eval/return_mean\n")
    assert "environment steps" in result.out
    assert result.out.splitlines()[-1].startswith("tiny (n=1): ")
    assert rlctl("plot", "last", "--metric", "train/kl", "--out", "kl.png", "--runs-dir", trained).out == "kl.png\n"
    assert (place / "kl.png").read_bytes().startswith(b"\x89PNG")


def test_algorithms_and_environments(rlctl: Rlctl) -> None:
    shown = {row["name"]: row["package"] for row in rlctl("algos", "--json").document}
    assert shown == dict.fromkeys(ALGOS.names(), "rlstudio")
    assert "PPO: clipped policy gradient" in rlctl("algos").out
    found = {env["id"]: env for env in rlctl("envs", "--json").document}
    plain = {"id": "CartPole-v1", "origin": "gymnasium.classic_control", "native": True, "extra": "", "installed": True}
    assert found["CartPole-v1"] == plain
    assert found["ALE/Pong-v5"]["extra"] == "atari"
    listed = rlctl("envs", "CARTPOLE").out
    assert "CartPole-v1" in listed
    assert "Acrobot" not in listed
    assert rlctl("envs", "no such thing", "--json").document == []
    assert "no environment" in rlctl("envs", "no such thing").out


def test_presets_are_listed_as_they_are_launched(rlctl: Rlctl) -> None:
    rows = rlctl("presets", "--json").document
    assert {row["file"] for row in rows} == {f"configs/{path.relative_to(FOLDER)}" for path in presets()}
    (pong,) = (row for row in rows if row["file"] == "configs/dqn/pong.yaml")
    assert (pong["algo"], pong["env"]) == ("dqn", "ALE/Pong-v5")
    assert pong["summary"].startswith("DQN on Pong from pixels")
    listed = rlctl("presets", "PENDULUM").out
    assert "configs/sac/pendulum.yaml" in listed
    assert "cartpole" not in listed
    assert rlctl("presets", "no such thing").out.startswith("no preset has")


def test_the_list_of_environments_says_how_to_get_more(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)  # what a missing package looks like to `import`
    assert "mujoco (not installed)" in rlctl("envs", "HalfCheetah").out
    assert (
        'not installed: Ant, HalfCheetah, Hopper, Humanoid, ...; run `pip install "mujoco>=3.2,<5" "imageio'
        in rlctl("envs").out
    )


def test_the_schema_is_json_for_one_or_all(rlctl: Rlctl) -> None:
    assert rlctl("schema").document["title"] == "RLStudio experiment"
    one = json.dumps(rlctl("schema", "--algo", "dqn").document)
    assert "train.dqn" in one
    assert "train.ppo" not in one


def test_checking_environments(rlctl: Rlctl, place: Path) -> None:
    played = r"CartPole-v1: fit to train on, after [\d,]+ steps in \d+ whole episodes .*\n"
    assert re.fullmatch(played, rlctl("check", "CartPole-v1").out)
    document = rlctl("check", "CartPole-v1", "--steps", 300, "--json").document
    assert document.pop("played")["steps"] == 300
    assert document == {"id": "CartPole-v1", "ok": True, "findings": []}
    (place / "broken_worlds_for_check.py").write_text(BROKEN_MODULE)
    result = rlctl("check", "Odd-v0", "--import", "broken_worlds_for_check", "--json")
    assert result.code == 5
    assert result.document["ok"] is False
    assert "not fit" in result.err
