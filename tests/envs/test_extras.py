"""Environments of extras: found without an import of the user's, and one line with the command when one is missing."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from rlstudio.core.errors import ConfigError, Incompatible, UnknownName, UserError
from rlstudio.core.spaces import Box
from rlstudio.envs import extras
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import known_envs, make_single, make_vec_env

FAMILIES = {
    "box2d": ("Box2D", ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "CarRacing-v3"]),
    "mujoco": (
        "mujoco",
        ["Ant-v5", "HalfCheetah-v5", "HumanoidStandup-v5", "InvertedDoublePendulum-v5", "Walker2d-v4"],
    ),
    "minigrid": ("minigrid", ["MiniGrid-Empty-5x5-v0", "BabyAI-GoToObj-v0"]),
    "atari": ("ale_py", ["ALE/Pong-v5", "ALE/NoSuchGame-v5", "BreakoutNoFrameskip-v4"]),
}
REQUIREMENTS = {
    "box2d": '"Box2D>=2.3.10,<3"',
    "mujoco": '"mujoco>=3.2,<5" "imageio>=2.34,<3"',
    "minigrid": '"minigrid>=3.0,<4"',
    "atari": '"ale-py>=0.11,<1" "opencv-python-headless>=4.10,<6"',
}
IDS = [(extra, module, id) for extra, (module, ids) in FAMILIES.items() for id in ids]


def fresh(code: str, cwd: Path | None = None, **variables: str) -> str:
    """The last line that a process of its own prints."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "DISPLAY")}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**environment, **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    return result.stdout.splitlines()[-1]


@pytest.mark.parametrize(("extra", "module", "id"), IDS, ids=[id for *_, id in IDS])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_missing_extra_is_told_with_its_command(extra, module, id, kind, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # what a missing package looks like to `import`
    with pytest.raises(UserError) as caught:
        make_vec_env(EnvConfig(id=id), 1, vectorization=kind)
    assert str(caught.value) == f"env.id: {id} needs {module}; run `pip install {REQUIREMENTS[extra]}`"


def test_every_id_of_an_extra_is_recognised_before_it_is_installed():
    extras.register_installed()
    origins = {"gymnasium.box2d": "box2d", "gymnasium.mujoco": "mujoco", "minigrid": "minigrid", "ale_py": "atari"}
    origins |= {"mpe2": "marl"} | {f"pettingzoo.{group}": "marl" for group in ("butterfly", "classic", "sisl")}
    found = {info.id: info for info in known_envs()}
    assert {info.extra for info in found.values()} == {"", *FAMILIES, "marl"}
    for info in found.values():
        assert info.extra == origins.get(info.origin, "")
        assert info.installed
        if info.origin.startswith("gymnasium") or "/" in info.id:  # ale_py also has plain names such as Pong-v4
            assert (extras.extra_of(info.id) is not None) == bool(info.extra)


def test_the_list_says_what_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    found = {info.id: info for info in known_envs()}
    assert not found["Ant-v5"].installed
    assert found["LunarLander-v3"].installed
    assert "Ant-v3" not in found  # a name that only says where it has gone


def test_a_broken_package_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "mujoco.py").write_text("raise ImportError('libGL.so.1: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    with pytest.raises(UserError, match=r"env.id: mujoco is installed but does not start: libGL.so.1: cannot open"):
        extras.prepare("Ant-v5")


def test_a_broken_package_does_not_spoil_lists_and_suggestions(monkeypatch, tmp_path):
    (tmp_path / "minigrid.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "minigrid", raising=False)
    assert "CartPole-v1" in {info.id for info in known_envs()}


@pytest.mark.parametrize(
    ("id", "near"),
    [("ALE/Pogn-v5", "ALE/Pong-v5"), ("MiniGrid-Emty-5x5-v0", "MiniGrid-Empty-5x5-v0"), ("Hoper-v5", "Hopper-v5")],
)
def test_names_of_extras_are_suggested(id, near):
    with pytest.raises(UnknownName, match=f"did you mean {near}"):
        make_vec_env(EnvConfig(id=id), 1)


def test_nothing_is_imported_before_it_is_needed():
    modules = ("Box2D", "mujoco", "minigrid", "ale_py", "cv2", "envpool", "pettingzoo", "torch")
    code = (
        "import sys; from rlstudio.envs.config import EnvConfig; from rlstudio.envs.make import make_vec_env;"
        "make_vec_env(EnvConfig(id='CartPole-v1', vectorization='sync'), 1).reset();"
        f"print([name for name in {modules} if name in sys.modules])"
    )
    assert fresh(code) == "[]"


IDS = ["HalfCheetah-v5", "MiniGrid-Empty-5x5-v0", "ALE/Pong-v5", "LunarLander-v3"]


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("sync", IDS),
        ("async", ["HalfCheetah-v5", "ALE/Pong-v5"]),  # those that would greet, or leave a file
        pytest.param("async", IDS, marks=pytest.mark.slow),
    ],
    ids=["sync", "async", "async, all"],
)
def test_ids_are_found_in_a_process_that_imported_nothing_and_nobody_is_disturbed(tmp_path, kind, ids):
    """Neither greetings nor a MUJOCO_LOG.TXT in the working directory; `fresh` asserts an empty standard error."""
    wrappers = {"MiniGrid-Empty-5x5-v0": ["ImgObsWrapper"]}
    code = f"""
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
for id in {ids}:
    env = make_vec_env(EnvConfig(id=id, wrappers={wrappers}.get(id, ())), 1, vectorization={kind!r})
    env.reset()
    env.close()
print("made")
"""
    assert fresh(code, tmp_path) == "made"
    assert list(tmp_path.iterdir()) == []


def has_egl() -> bool:
    try:
        ctypes.CDLL(extras.EGL)
    except OSError:
        return False
    return True


needs_egl = pytest.mark.skipif(not has_egl(), reason=f"{extras.EGL} is not installed")


@pytest.mark.parametrize(
    ("variables", "chosen"),
    [pytest.param({}, "egl", marks=needs_egl), ({"MUJOCO_GL": "osmesa"}, "osmesa"), ({"DISPLAY": ":9"}, None)],
)
def test_mujoco_draws_without_a_display(variables, chosen):
    code = "import os; from rlstudio.envs.extras import prepare; prepare('x'); print(os.environ.get('MUJOCO_GL'))"
    assert fresh(code, **variables) == str(chosen)


def test_without_a_library_to_draw_with_mujoco_steps_and_a_film_is_refused(tmp_path):
    code = """
import ctypes
from rlstudio.core.errors import UserError
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single, make_vec_env

class CDLL(ctypes.CDLL):
    def __init__(self, name, *args, **kwargs):
        if "EGL" in str(name):
            raise OSError(f"{name}: cannot open shared object file")
        super().__init__(name, *args, **kwargs)

ctypes.CDLL = CDLL
env = make_vec_env(EnvConfig(id="Hopper-v5"), 1)
env.reset()
try:
    make_single(EnvConfig(id="Hopper-v5"), render_mode="rgb_array")
except UserError as error:
    print(error)
"""
    assert fresh(code, tmp_path) == (
        "env.id: Hopper-v5 cannot be filmed here, MuJoCo has nothing to draw with: install libEGL.so.1"
        " (Debian: libegl1), or OSMesa and set MUJOCO_GL=osmesa"
    )


def test_an_unstable_simulation_is_a_warning_of_python():
    extras.prepare("Ant-v5")
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    data.qpos[0] = np.nan
    with pytest.warns(RuntimeWarning, match="MuJoCo: Nan, Inf or huge value in QPOS"):
        mujoco.mj_step(model, data)


def test_the_mission_of_minigrid_is_refused_with_what_to_do():
    with pytest.raises(Incompatible) as caught:
        make_vec_env(EnvConfig(id="MiniGrid-Empty-5x5-v0"), 1)
    assert str(caught.value) == (
        "MiniGrid-Empty-5x5-v0: observation 'mission' is text; leave it out with"
        " env.wrappers=[{FilterObservation: {filter_keys: [direction, image]}}]"
        " (of MiniGrid also ImgObsWrapper or FlatObsWrapper)"
    )


@pytest.mark.parametrize(
    ("wrappers", "shown"),
    [
        (["ImgObsWrapper"], (7, 7, 3)),
        (["ImgObsWrapper", "FlattenObservation"], (147,)),
        (["FlatObsWrapper"], (2835,)),
        (["FullyObsWrapper", "ImgObsWrapper"], (5, 5, 3)),
        (["RGBImgPartialObsWrapper", "ImgObsWrapper"], (56, 56, 3)),
        ([{"FilterObservation": {"filter_keys": ["image"]}}], ["image"]),
        (["DictObservationSpaceWrapper"], ["direction", "image", "mission"]),
    ],
)
def test_the_ways_to_show_a_minigrid(wrappers, shown):
    env = make_vec_env(EnvConfig(id="MiniGrid-Empty-5x5-v0", wrappers=wrappers), 2)
    env.reset()
    env.step(np.array([0, 2]))
    space = env.spaces.observation
    assert (space.shape if isinstance(space, Box) else [name for name, _ in space.items()]) == shown


def test_atari_frames_are_prepared_and_stacked():
    wrappers = ["AtariPreprocessing", {"FrameStackObservation": {"stack_size": 4}}]
    env = make_vec_env(EnvConfig(id="ALE/Pong-v5", kwargs={"frameskip": 1}, wrappers=wrappers), 1)
    assert (env.spaces.observation.shape, env.spaces.observation.dtype) == ((4, 84, 84), "uint8")
    assert env.reset().max() > 0
    with pytest.raises(ConfigError, match=r"AtariPreprocessing does not fit.*set env.kwargs.frameskip=1"):
        make_vec_env(EnvConfig(id="ALE/Pong-v5", wrappers=wrappers), 1)


def test_wrappers_name_the_extra_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(
        UserError, match=r'env.wrappers: ImgObsWrapper needs minigrid; run `pip install "minigrid>=3.0,<4"`$'
    ):
        make_vec_env(EnvConfig(id="CartPole-v1", wrappers=["ImgObsWrapper"]), 1)

    def without_opencv(env):
        raise gymnasium.error.DependencyNotInstalled("opencv-python package not installed")

    monkeypatch.setattr(gymnasium.wrappers, "AtariPreprocessing", without_opencv)
    with pytest.raises(
        UserError,
        match=r'env.wrappers: AtariPreprocessing needs OpenCV; run `pip install "opencv-python-headless>=4.10,<6"`$',
    ):
        make_vec_env(EnvConfig(id="ALE/Pong-v5", wrappers=["AtariPreprocessing"]), 1)


def test_a_part_of_an_extra_that_is_missing_is_named_with_its_own_command(monkeypatch):
    """MuJoCo itself is there; Gymnasium's own advice would install a second set of packages."""

    def without_imageio(*args, **kwargs):
        raise gymnasium.error.DependencyNotInstalled('run `pip install "gymnasium[mujoco]"`')

    monkeypatch.setattr(gymnasium, "make", without_imageio)
    with pytest.raises(UserError) as caught:
        make_vec_env(EnvConfig(id="HalfCheetah-v5", vectorization="sync"), 1)
    assert str(caught.value) == (
        f"env.id: HalfCheetah-v5 needs a package that is not installed: run `pip install {REQUIREMENTS['mujoco']}`"
    )


def test_float64_observations_are_delivered_as_float32_and_pictures_as_bytes():
    cheetah = make_vec_env(EnvConfig(id="HalfCheetah-v5"), 1)
    assert (cheetah.spaces.observation.dtype, cheetah.reset().dtype) == ("float32", np.float32)
    racing = make_vec_env(EnvConfig(id="CarRacing-v3"), 1)
    assert racing.spaces.observation.is_image
    assert racing.reset().dtype == np.uint8


@pytest.mark.parametrize(
    "id",
    ["LunarLander-v3", pytest.param("HalfCheetah-v5", marks=needs_egl), "MiniGrid-Empty-5x5-v0", "ALE/Pong-v5"],
)
def test_each_family_can_be_filmed(id):
    wrappers = ["ImgObsWrapper"] if id.startswith("MiniGrid") else []
    env = make_single(EnvConfig(id=id, wrappers=wrappers), render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape[2] == 3
    env.close()
