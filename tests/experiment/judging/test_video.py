"""Videos: playable files, the right episodes in them, and nothing left behind when something breaks."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from rlstudio.core.contracts import Acted
from rlstudio.core.errors import StorageError, UserError
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.judging import video
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.judging.video import film, film_seeds

CFG = EnvConfig(id="Fake-v0")
CARTPOLE = EnvConfig(id="CartPole-v1")
FPS = 20
HOLD = FPS // 2


class FakeEnv:
    """Ends after seed % 7 + 1 steps, each of which pays 2; its odd-sized picture gets brighter."""

    metadata = {"render_fps": FPS}
    made: list["FakeEnv"] = []

    def __init__(self) -> None:
        self.closed = False
        FakeEnv.made.append(self)

    def reset(self, *, seed: int) -> tuple[Any, dict]:
        self.length, self.clock = seed % 7 + 1, 0
        return {"clock": np.array([0.0]), "seed": seed}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert action == self.clock
        self.clock += 1
        return {"clock": np.array([float(self.clock)]), "seed": 0}, 2.0, self.clock == self.length, False, {}

    def render(self) -> Any:
        return np.full((31, 45, 3), 20 * self.clock, np.uint8)

    def close(self) -> None:
        self.closed = True


class FakeAgent:
    """Plays the number of the step, read from its observation and counted in its carry."""

    acting = "numpy"

    def step(self, observations: Any, carry: Any = None, noise: Any = None) -> Acted:
        count = 0 if carry is None else carry
        assert observations["clock"].shape == (1, 1)
        assert observations["clock"][0, 0] == count
        return Acted(np.array([count]), {}, count + 1)


class Chaser:
    """Pushes CartPole's cart under the falling pole, too late to hold it for more than a second."""

    acting = "numpy"

    def step(self, observations: Any, carry: Any = None, noise: Any = None) -> Acted:
        return Acted((observations[:, 2] > 0).astype(np.int64), {}, None)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeEnv]:
    FakeEnv.made = []
    monkeypatch.setattr(video, "make_single", lambda cfg, render_mode: FakeEnv())
    return FakeEnv


def decoded(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    width, height = meta["size"]
    return meta, [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader]


# -- files ----------------------------------------------------------------------------------------------------------


def test_mp4_plays_everywhere(fake: type[FakeEnv], tmp_path: Path) -> None:
    recording = film_seeds(FakeAgent(), CFG, tmp_path / "new" / "film.mp4", seeds=[4, 9])
    assert recording.path == tmp_path / "new" / "film.mp4"
    assert (recording.seeds, recording.lengths, recording.returns) == ((4, 9), (5, 3), (10.0, 6.0))
    meta, frames = decoded(recording.path)
    assert meta["codec"] == "h264"
    assert meta["pix_fmt"].startswith("yuv420p")
    assert meta["size"] == (46, 32)  # 45 x 31 made even
    assert meta["fps"] == FPS
    assert len(frames) == (6 + HOLD) + (4 + HOLD)
    np.testing.assert_allclose([f[:30, :44].mean() for f in frames[:6]], [0, 20, 40, 60, 80, 100], atol=4)
    data = recording.path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # a browser can start before the end has arrived
    assert [p.name for p in recording.path.parent.iterdir()] == ["film.mp4"]
    assert [env.closed for env in fake.made] == [True, True]  # one fresh env for each episode


@pytest.mark.usefixtures("fake")
def test_frame_rate_can_be_chosen(tmp_path: Path) -> None:
    meta, _ = decoded(film_seeds(FakeAgent(), CFG, tmp_path / "film.mp4", seeds=[1], fps=5).path)
    assert meta["fps"] == 5


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("name", ["film.mp4", "film.webp"])
def test_webp_where_there_is_no_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def missing() -> str:
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", missing)
    recording = film_seeds(FakeAgent(), CFG, tmp_path / name, seeds=[4])
    assert recording.path == tmp_path / "film.webp"
    with Image.open(recording.path) as image:
        assert image.size == (45, 31)
        assert image.is_animated
        assert image.info["loop"] == 0


@pytest.mark.usefixtures("fake")
def test_long_webp_keeps_its_whole_length_with_fewer_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "WEBP_FRAMES", 4)
    recording = film_seeds(FakeAgent(), CFG, tmp_path / "film.webp", seeds=[6])
    with Image.open(recording.path) as image:
        brightness = []
        for number in range(image.n_frames):
            image.seek(number)
            brightness.append(float(np.asarray(image.convert("RGB")).mean()))
    assert brightness == sorted(brightness)
    assert brightness[-1] == pytest.approx(140, abs=4)


@pytest.mark.parametrize("name", ["film.avi", "film"])
def test_other_formats_are_refused_before_anything_is_played(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end with \.mp4 or \.webp"):
        film_seeds(FakeAgent(), CFG, tmp_path / name, seeds=[1])


def test_a_world_without_pictures_is_refused(
    fake: type[FakeEnv], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "render", lambda self: None)
    with pytest.raises(UserError, match="Fake-v0: does not render as rgb_array"):
        film_seeds(FakeAgent(), CFG, tmp_path / "film.mp4", seeds=[1])
    assert not list(tmp_path.iterdir())
    assert fake.made[0].closed


def test_a_crash_in_the_middle_leaves_the_old_video(
    fake: type[FakeEnv], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "film.mp4"
    target.write_bytes(b"old")

    def crash(self: FakeEnv, action: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "step", crash)
    with pytest.raises(KeyboardInterrupt):
        film_seeds(FakeAgent(), CFG, target, seeds=[1])
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]
    assert target.read_bytes() == b"old"


@pytest.mark.usefixtures("fake")
def test_an_encoder_that_fails_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken-ffmpeg"
    broken.write_text("#!/bin/sh\necho 'Unknown encoder libx264' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(broken))
    with pytest.raises(StorageError, match=r"could not be written: Unknown encoder libx264$"):
        film_seeds(FakeAgent(), CFG, tmp_path / "film.mp4", seeds=[1])
    assert [p.name for p in tmp_path.iterdir()] == ["broken-ffmpeg"]


def test_importing_loads_no_torch_no_pygame_no_ffmpeg() -> None:
    heavy = {"torch", "pygame", "imageio_ffmpeg"}
    code = f"import sys, rlstudio.experiment.judging.video; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- the real thing -------------------------------------------------------------------------------------------------


DRAWN = EnvConfig(
    id="CartPole-v1", params={"length": {"uniform": [0.05, 0.5]}}, vectorization="sync", max_episode_steps=30
)


@pytest.mark.parametrize("cfg", [CARTPOLE, DRAWN], ids=["own values", "drawn"])
def test_the_film_shows_the_episodes_that_were_evaluated(tmp_path: Path, cfg: EnvConfig) -> None:
    evaluation = evaluate(Chaser(), cfg, episodes=3, seed=5)
    recording = film(Chaser(), cfg, tmp_path / "all.mp4", seed=5, episodes=3)
    assert recording.seeds == evaluation.seeds
    assert recording.returns == evaluation.returns
    assert recording.lengths == evaluation.lengths


@pytest.mark.parametrize(("choose", "pick"), [("best", max), pytest.param("worst", min, marks=pytest.mark.slow)])
def test_best_and_worst(tmp_path: Path, choose: Any, pick: Any) -> None:
    evaluation = evaluate(Chaser(), CARTPOLE, episodes=4, seed=5)
    assert len(set(evaluation.returns)) > 1
    recording = film(Chaser(), CARTPOLE, tmp_path / "one.mp4", seed=5, episodes=4, choose=choose)
    assert recording.returns == (pick(evaluation.returns),)
    meta, frames = decoded(recording.path)
    assert meta["size"] == (600, 400)
    assert len(frames) == recording.lengths[0] + 1 + 25


def test_our_own_worlds_can_be_filmed(tmp_path: Path) -> None:
    class Down:
        acting = "numpy"

        def step(self, observations: Any, carry: Any = None, noise: Any = None) -> Acted:
            return Acted(np.ones(len(observations), np.int64), {}, None)

    cfg = EnvConfig(id="rlstudio/GridWorld-v0", max_episode_steps=10)
    recording = film(Down(), cfg, tmp_path / "grid.mp4", seed=0, episodes=2)
    assert recording.lengths == (10, 10)
    assert decoded(recording.path)[0]["size"] == (168, 168)
