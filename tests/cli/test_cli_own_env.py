"""A person with an environment in one file: it is named by its path, its class needs no registration, and every command
finds it again, from any directory."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rlstudio.control.sweep.search import from_json, load_search
from rlstudio.control.workspace import Workspace
from rlstudio.envs.own_modules import IMPORTED
from rlstudio.experiment.config.imports import import_modules
from support.cli_scenario import Rlctl

DRONE = """\
import gymnasium
import numpy as np

from wind_of_drone import WIND


class Drone(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, wind=WIND, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.wind, self.render_mode = wind, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = float(self.np_random.random())
        return self._observation(), {}

    def step(self, action):
        self.height += (1 if action else -1) * 0.1 + self.wind
        return self._observation(), -abs(self.height), abs(self.height) > 2, False, {}

    def _observation(self):
        return np.array([self.height, self.wind], np.float32)

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)
"""
REGISTERED = DRONE + '\n\ngymnasium.register("Drone-v1", entry_point=Drone, max_episode_steps=20)\n'
MODULES = ("drone_env", "wind_of_drone")
TINY_DRONE = ("-f", "tiny.yaml", "env.max_episode_steps=20", "train.epochs=2", "-q")


def forget_modules() -> None:
    """As if this were another process."""
    for name in MODULES:
        sys.modules.pop(name, None)
    IMPORTED.clear()


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    forget_modules()


@pytest.fixture
def drone(place: Path) -> Path:
    (place / "envs").mkdir()
    (place / "envs" / "wind_of_drone.py").write_text("WIND = 0.01\n")
    file = place / "envs" / "drone_env.py"
    file.write_text(DRONE)
    return file


@pytest.mark.parametrize(
    "options",
    [
        ("--import", "envs/drone_env.py", "env.id=drone_env:Drone"),
        ("--import", "./envs/drone_env.py", "env.id=envs/drone_env.py:Drone"),
        ("env.id=envs/drone_env.py:Drone",),
    ],
)
def test_a_file_is_imported_and_its_class_needs_no_registration(
    rlctl: Rlctl, drone: Path, options: tuple[str, ...]
) -> None:
    """Newcomer S2: a path, as a person with one file types it, was refused by Python's own messages."""
    done = rlctl("launch", *TINY_DRONE, *options)
    assert (done.code, done.err) == (0, "")
    config = yaml.safe_load(next(Path("runs").glob("2*/config.yaml")).read_text())
    assert (config["env"]["id"], config["imports"]) == ("drone_env:Drone", ["drone_env"])
    assert Workspace(Path("runs")).records.consent(done.out.strip()).modules == (str(drone),)


def test_every_command_finds_the_file_again_from_another_directory(
    rlctl: Rlctl, drone: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newcomer S2: a stored run found its module only from the folder where it was launched."""
    assert rlctl("launch", "--algo", "ppo", "--env", "envs/drone_env.py:Drone", *TINY_DRONE[2:], *SMALL).code == 0
    away = place / "away"
    away.mkdir()
    (away / "drone_env.py").write_text("raise RuntimeError('another file of that name')\n")
    monkeypatch.chdir(away)
    runs = ("--runs-dir", place / "runs")
    for command in (
        ("eval", "last", "--episodes", 1),
        ("export", "last", "-o", "bundle", "--format", "bundle"),
        ("play", "last", "--video", "film.mp4"),
        ("resume", "last", "train.epochs=3", "-q"),
        ("resume", "last", "train.epochs=4", "--detach", "-q"),
        ("fork", "last", "train.epochs=9", "--detach", "-q"),
    ):
        forget_modules()
        done = rlctl(*command, *runs)
        assert (done.code, done.err) == (0, ""), command
        assert sys.modules["drone_env"].__file__ == str(drone)
    assert Workspace(place / "runs").records.consent(done.out.strip()).modules == (str(drone),)
    forget_modules()
    refused = rlctl("eval", "bundle", "--episodes", 1)
    assert "its environment is registered by drone_env; allow it: --import drone_env" in refused.err
    assert rlctl("eval", "bundle", "--episodes", 1, "--import", drone).code == 0


SMALL = (
    "env.num_envs=2",
    "train.steps_per_epoch=64",
    "train.batch_size=32",
    "policy.network.hidden_sizes=[8]",
    "eval.final_episodes=1",
)


def test_a_file_that_has_changed_is_said_once_when_its_run_goes_on(rlctl: Rlctl, drone: Path) -> None:
    run_id = rlctl("launch", *TINY_DRONE, "env.id=envs/drone_env.py:Drone").out.strip()
    drone.write_text(DRONE.replace("-abs(self.height)", "-2 * abs(self.height)"))
    notices = []
    for epochs in (3, 4):
        forget_modules()
        done = rlctl("resume", run_id, f"train.epochs={epochs}", "-q")
        assert done.code == 0
        notices.append(done.err.count(f"{drone} has changed since the run was last started"))
    assert notices == [1, 0]
    shown = rlctl("show", run_id, "--json").document
    assert shown["exact"] is False  # Newcomer S1: the curve of two reward functions was called exact
    assert f"steps the code of its environment changed: {drone}" in shown["exact_reason"]


def test_a_file_that_has_moved_is_named_again(rlctl: Rlctl, drone: Path, place: Path) -> None:
    assert rlctl("launch", *TINY_DRONE, "env.id=envs/drone_env.py:Drone").code == 0
    forget_modules()
    moved = shutil.move(place / "envs", place / "worlds")
    refused = rlctl("eval", "last", "--episodes", 1)
    assert refused.code == 2
    assert (
        f"launched with --import {drone}: there is no such file; say where it is now: --import PATH/drone_env.py"
        in (refused.err)
    )
    assert rlctl("eval", "last", "--episodes", 1, "--import", f"{moved}/drone_env.py").code == 0


def test_a_file_in_a_configuration_or_a_folder_alone_is_never_imported(rlctl: Rlctl, drone: Path, place: Path) -> None:
    config = {**yaml.safe_load((place / "tiny.yaml").read_text()), "env": {"id": "envs/drone_env.py:Drone"}}
    (place / "own.yaml").write_text(yaml.safe_dump(config))
    refused = rlctl("launch", "-f", "own.yaml")
    assert refused.code == 2
    assert "env.id: drone_env:Drone is in a module that is not imported; allow it: --import drone_env" in refused.err
    assert "drone_env" not in sys.modules
    done = rlctl("launch", *TINY_DRONE, "env.id=envs/drone_env.py:Drone", "--runs-dir", "there")
    forget_modules()
    Path("runs").mkdir()
    shutil.copytree(Path("there") / done.out.strip(), Path("runs") / done.out.strip())
    assert "wants to import drone_env, and it was not launched here" in rlctl("eval", "last").err
    assert "drone_env" not in sys.modules
    for named in (Path("envs/drone_env.py"), drone):
        assert rlctl("eval", "last", "--episodes", 1, "--import", named).code == 0
        forget_modules()


def test_the_id_of_a_run_folder_cannot_call_what_is_no_environment(rlctl: Rlctl, trained: Path, place: Path) -> None:
    shutil.copytree(trained, place / "runs")
    file = next(Path("runs").glob("2*/config.yaml"))
    config = yaml.safe_load(file.read_text())
    for id in ("subprocess:Popen", "os:system", "gymnasium:make"):
        config["env"] |= {"id": id, "kwargs": {"args": ["touch", str(place / "ran")]}}
        file.write_text(yaml.safe_dump(config))
        refused = rlctl("eval", "last", "--episodes", 1)
        assert (refused.code, f"{id} is no class of gymnasium.Env" in refused.err) == (2, True)
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--import", "envs/missing.py"), "--import envs/missing.py: there is no such file; give its path from here"),
        (("--import", "envs/my-env.py"), "its name may have letters, digits and _ only; rename the file"),
        (("--import", "envs/random.py"), "another module random ("),
        (("--import", "runs/drone_env.py"), "is below a runs folder, from which nothing is imported"),
        (("env.id=envs/drone_env.py:Drome",), "drone_env has no class 'Drome'; did you mean Drone?"),
        (("env.id=envs/drone_env.py",), "is a file; name the class in it too: envs/drone_env.py:YourEnv"),
        (("env.id=envs/drone_env.py:WIND",), "drone_env:WIND is no class of gymnasium.Env"),
        (("--import", "envs/drone_env.py", "env.id=Hoverer-v0"), NOT_REGISTERED := (
            "drone_env registered nothing named Hoverer-v0; it registers nothing; call gymnasium.register('Hoverer-v0',"
            " entry_point=Drone) in it, or name the class: drone_env:Drone"
        )),
    ],
)  # fmt: skip
def test_every_other_way_to_name_it_is_answered_in_one_line(
    rlctl: Rlctl, drone: Path, place: Path, options: tuple[str, ...], text: str
) -> None:
    """Newcomer S2: remedies that did not work, and a far-fetched "did you mean Enduro-v0?"."""
    for name in ("envs/my-env.py", "envs/random.py", "runs/drone_env.py"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("")
    refused = rlctl("launch", *TINY_DRONE, *options)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert text in refused.err


def test_ids_that_a_module_does_register_are_listed_or_suggested(rlctl: Rlctl, drone: Path) -> None:
    drone.write_text(REGISTERED)
    launch = ("launch", *TINY_DRONE, "--import", "envs/drone_env.py")
    assert "unknown 'Drone-v2'; did you mean Drone-v1?" in rlctl(*launch, "env.id=Drone-v2").err
    assert "registered nothing named Hoverer-v0; it registers: Drone-v1;" in rlctl(*launch, "env.id=Hoverer-v0").err
    done = rlctl("check", "envs/drone_env.py:Drone-v1", "--steps", 50, "--json")
    assert (done.code, done.document["id"]) == (0, "Drone-v1")


def test_worker_processes_find_the_class(drone: Path) -> None:
    from rlstudio.envs.config import EnvConfig
    from rlstudio.envs.make import make_vec_env

    assert import_modules(["envs/drone_env.py"]) == ("drone_env",)
    env = make_vec_env(EnvConfig(id="drone_env:Drone", num_envs=1, max_episode_steps=20, vectorization="async"))
    try:
        assert env.reset().shape == (1, 2)
    finally:
        env.close()


def test_a_sweep_goes_on_with_the_same_file_from_another_directory(
    drone: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = import_modules(["envs/drone_env.py"])
    experiment = {**yaml.safe_load((place / "tiny.yaml").read_text()), "env": {"id": "drone_env:Drone"}}
    space = {"train.lr": {"low": 1e-4, "high": 1e-3}}
    search = load_search({"name": "mine", "experiment": experiment, "space": space, "trials": 2}, imports=names)
    stored = search.to_json()
    assert json.loads(stored)["experiment"]["imports"] == [str(drone)]
    forget_modules()
    monkeypatch.chdir("/")
    again = from_json(stored)
    assert (again.base.imports, sys.modules["drone_env"].__file__) == (("drone_env",), str(drone))


def test_check_takes_a_file_its_settings_and_wrappers_and_says_how_much_it_played(rlctl: Rlctl, drone: Path) -> None:
    """Newcomer S2: `check` took neither `env.kwargs` nor wrappers nor a file, and did not say how much it played."""
    Path("own.yaml").write_text(
        "env: {id: drone_env:Drone, kwargs: {wind: 0.02}, max_episode_steps: 20, wrappers: [FlattenObservation]}\n"
        "policy: {algo: no_such_algorithm}\n"
    )
    done = rlctl("check", "-f", "own.yaml", "--import", "envs/drone_env.py", "--steps", 100)
    assert (done.code, done.err) == (0, "")
    assert "drone_env:Drone: fit to train on, after 100 steps in 5 whole episodes (" in done.out
    bad = rlctl("check", "-f", "own.yaml", "--import", "envs/drone_env.py", "--steps", 9, "env.kwargs.wind=.nan")
    assert (bad.code, "override env.kwargs.wind=.nan: env.kwargs.wind: must be finite" in bad.err) == (2, True)
    odd = rlctl("check", "--env", "envs/drone_env.py:Drone", "env.kwargs.wind=1e9", "--steps", 9)  # as for launch
    assert (odd.code, "(1e+09) leaves its bounds; episode 0 (seed 11), step 0" in odd.out) == (0, True)
    refused = rlctl("check", "envs/drone_env.py:Drone", "env.kwargs.wint=3")
    assert (refused.code, "env.kwargs: drone_env:Drone refuses {'wint': 3}" in refused.out) == (5, True)


TRIO = """\
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Trio(ParallelEnv):
    metadata = {"name": "trio"}
    possible_agents = ["a", "b", "c"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.left = list(self.possible_agents), 5
        return self.everyone(np.zeros(1, np.float32)), self.everyone({})

    def everyone(self, value):
        return {agent: value for agent in self.possible_agents}

    def step(self, actions):
        self.left -= 1
        if not self.left:
            self.agents = []
        each = self.everyone
        return each(np.zeros(1, np.float32)), each(1.0), each(not self.left), each(False), each({})
"""


def test_three_agents_are_trained_by_defaults(rlctl: Rlctl, place: Path) -> None:
    (place / "trio.py").write_text(TRIO)
    words = ["launch", "--algo", "ppo", "--env", "trio.py:Trio", "--dry-run"]
    for given, steps in [([], 2_064), (["train.total_steps=1000"], 1_008)]:
        shown = rlctl(*words, *given)
        assert shown.code == 0, shown.err
        assert f"steps_per_epoch: {steps}" in shown.out
    chosen = rlctl(*words[:-1], "train.steps_per_epoch=1000")
    assert chosen.code == 2
    refusal = "train.steps_per_epoch: 1000 is not a multiple of 24 (8 environments of 3 agents); 1008 is"
    assert refusal in chosen.err
    steps_of_file = "env: {id: trio.py:Trio}\npolicy: {algo: ppo}\ntrain: {steps_per_epoch: 1000}\n"
    (place / "defaults").write_text(steps_of_file)  # what a file says is never rounded, whatever the file is called
    assert refusal in rlctl("launch", "-f", "defaults", "--dry-run").err
