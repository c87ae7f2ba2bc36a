"""Videos of a greedy agent: H.264 in MP4, which every browser plays, or an animated WebP where there is no ffmpeg.

Pictures come from a plain Gymnasium env, made anew for each episode. Episode k of a video is episode k of the
evaluation with the same seed, so the film shows an episode whose return was counted.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rlstudio.core.contracts import Array, Player, Step
from rlstudio.core.errors import Incompatible, StorageError, UserError
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single
from rlstudio.envs.pettingzoo_ids import is_pettingzoo
from rlstudio.envs.worlds.catalog import exists_only_here, make_world
from rlstudio.experiment.judging.evaluate import Evaluator
from rlstudio.experiment.judging.play import each, play
from rlstudio.storage.output_file import output_path, written_whole
from rlstudio.storage.writers import translated_os_errors

if TYPE_CHECKING:
    import gymnasium

    from rlstudio.envs.pettingzoo.drawn import DrawnTeam

Frame = NDArray[np.uint8]
Sink = Callable[[Frame], object]

SUFFIXES = (".mp4", ".webp")
DEFAULT_FPS = 30
LONGEST = 20_000
"""Steps after which the film of an episode stops."""

WEBP_FRAMES = 600
"""An animated WebP is put together in memory: above this many frames, every second one is dropped."""


@dataclass(frozen=True)
class Filmed:
    """What was filmed, in the order of the film; of several agents the mean of their returns."""

    path: Path
    seeds: tuple[int, ...]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]


def film(
    agent: Player,
    env_cfg: EnvConfig,
    path: str | Path,
    *,
    seed: int,
    episodes: int = 1,
    choose: Literal["all", "best", "worst"] = "all",
    fps: float | None = None,
) -> Filmed:
    """Film all of `episodes` one after the other, or only the one of them with the highest or lowest return."""
    _check_pictures(env_cfg)
    with Evaluator(env_cfg, episodes=episodes, seed=seed, vectorization="sync") as evaluator:
        # Agents of one world share its episode, which is filmed once.
        drawn = dict(zip(evaluator.seeds, evaluator.params, strict=True))
        if choose != "all":
            evaluation = evaluator.run(agent)
            seed = evaluation.seeds[evaluation.best if choose == "best" else evaluation.worst]
            drawn = {seed: drawn[seed]}
    return film_seeds(agent, env_cfg, path, seeds=tuple(drawn), params=tuple(drawn.values()), fps=fps)


def film_seeds(
    agent: Player,
    env_cfg: EnvConfig,
    path: str | Path,
    *,
    seeds: Sequence[int],
    params: Sequence[Mapping[str, float]] | None = None,
    fps: float | None = None,
    poll: Callable[[], None] = lambda: None,
) -> Filmed:
    """Film the episodes of these seeds (for example `evaluation.seeds[evaluation.best]`), with what was drawn for their
    `params`. `poll` is called for every picture, and ends the film by raising."""
    target = output_path(path, SUFFIXES)
    _check_pictures(env_cfg)
    ffmpeg = _ffmpeg() if target.suffix.lower() == ".mp4" else None
    if ffmpeg is None:
        target = target.with_suffix(".webp")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # read when pygame is imported: no window, no display needed
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

    drawn = params or [{}] * len(seeds)
    films = [_Film(agent, env_cfg, seed, values) for seed, values in zip(seeds, drawn, strict=True)]
    with written_whole(target) as partial:
        first = next(frames := _joined(films))
        rate = fps or films[0].fps
        with _mp4(partial, first, rate, ffmpeg) if ffmpeg else _webp(partial, rate) as sink:
            sink(first)
            for frame in frames:
                sink(frame)
                poll()
    return Filmed(target, tuple(seeds), tuple(f.total for f in films), tuple(f.length for f in films))


class _Film:
    """One episode as frames; its return and length are known when the last frame is out."""

    def __init__(self, agent: Player, env_cfg: EnvConfig, seed: int, params: Mapping[str, float]) -> None:
        self.agent, self.env_cfg, self.seed, self.params = agent, env_cfg, seed, params
        self.fps, self.total, self.length = float(DEFAULT_FPS), 0.0, 0

    def frames(self) -> Iterator[Frame]:
        with closing(_drawn(self.env_cfg, self.params)) as env:
            observations = env.reset(self.seed)
            self.fps = env.fps or float(DEFAULT_FPS)
            yield self._picture(env)
            for played in play(self.agent, env, observations):
                self.total += float(played.step.rewards.sum()) / env.num_envs
                self.length += 1
                yield self._picture(env)
                if env.is_over or self.length == LONGEST:
                    return

    def _picture(self, env: _OneEnv | DrawnTeam) -> Frame:
        frame = env.render()
        if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
            raise UserError(f"{self.env_cfg.id}: does not render as rgb_array, so there is nothing to film")
        return np.ascontiguousarray(frame, np.uint8)


def _joined(films: Sequence[_Film]) -> Iterator[Frame]:
    """The episodes one after the other; the last frame of each stays for half a second, so that its end is visible."""
    for film in films:
        for frame in film.frames():
            yield frame
        yield from [frame] * round(film.fps / 2)


def has_pictures(cfg: EnvConfig) -> bool:
    """A film is of a Gymnasium or PettingZoo env; a world of several agents that exists only here is neither."""
    return not exists_only_here(cfg) or make_world(cfg.id, cfg.kwargs).agents == 1


def _check_pictures(cfg: EnvConfig) -> None:
    if not has_pictures(cfg):
        raise Incompatible(
            f"{cfg.id} is a world of several agents that draws no pictures, so there is nothing to film;"
            " `rlctl eval RUN` and `rlctl tournament RUN OTHER` say how a policy plays it"
        )


def _drawn(cfg: EnvConfig, params: Mapping[str, float]) -> _OneEnv | DrawnTeam:
    if is_pettingzoo(cfg.id):
        from rlstudio.envs.pettingzoo.drawn import DrawnTeam
        from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe

        return DrawnTeam(PettingZooRecipe(cfg))
    from rlstudio.envs.gym.settings.param_env import ParamEnv  # imports Gymnasium

    env = make_single(cfg, render_mode="rgb_array")
    if params and isinstance(env, ParamEnv):
        env.assign(params)
    return _OneEnv(env)


class _OneEnv:
    """A plain env as a vector of one that stays at the end of its episode, whose picture is the film's last."""

    num_envs = 1

    def __init__(self, env: gymnasium.Env) -> None:
        self._env = env
        self.is_over = False
        self.fps = float(env.metadata.get("render_fps") or DEFAULT_FPS)

    def reset(self, seed: int) -> Array:
        return _as_row(self._env.reset(seed=seed)[0])

    def render(self) -> object:
        return self._env.render()

    def close(self) -> None:
        self._env.close()

    def step(self, actions: np.ndarray) -> Step:
        observation, reward, terminated, truncated, _ = self._env.step(actions[0])
        self.is_over = bool(terminated or truncated)
        row, ends = _as_row(observation), (np.array([bool(terminated)]), np.array([bool(truncated)]))
        return Step(row, row, np.array([float(reward)]), *ends, {})


def _as_row(observation: Array) -> Array:
    """One observation as a batch of one."""
    return each(lambda value: np.asarray(value)[None], observation)


def _ffmpeg() -> str | None:
    """The encoder's program, or None where there is none."""
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None


@contextmanager
def _mp4(path: Path, first: Frame, fps: float, program: str) -> Iterator[Sink]:
    """Frames as raw bytes into ffmpeg. Its messages go to a temporary file: on our terminal they would break
    the display, and a pipe without a reader could fill and block."""
    height, width, _ = first.shape
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "pipe:0"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]  # yuv420p halves both sides
    video = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "21", "-movflags", "+faststart", "-f", "mp4"]
    command = [program, "-y", "-v", "error", *source, *even, *video, str(path)]
    with tempfile.TemporaryFile() as messages:
        encoder = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=messages, start_new_session=True)
        pipe = encoder.stdin
        assert pipe is not None
        try:
            yield lambda frame: pipe.write(frame.data)
            pipe.close()
            status = encoder.wait()
        except BrokenPipeError:  # it gave up: its messages say why
            status = encoder.wait() or 1
        finally:
            if encoder.poll() is None:  # something else went wrong: the video will not be finished
                encoder.kill()
                encoder.wait()
            with suppress(BrokenPipeError):
                pipe.close()
        if status:
            messages.seek(0)
            reason = messages.read().decode(errors="replace").strip().splitlines()
            raise StorageError(f"{path.parent}: the video could not be written: {reason[-1] if reason else status}")


@contextmanager
def _webp(path: Path, fps: float) -> Iterator[Sink]:
    from PIL import Image

    pictures: list[Image.Image] = []
    count, stride = 0, 1

    def add(frame: Frame) -> None:
        nonlocal count, stride
        if count % stride == 0:
            pictures.append(Image.fromarray(frame))
        count += 1
        if len(pictures) > WEBP_FRAMES:
            del pictures[1::2]
            stride *= 2

    yield add
    pause = round(1000 * stride / fps)  # milliseconds
    with translated_os_errors(path):
        pictures[0].save(path, "WEBP", save_all=True, append_images=pictures[1:], duration=pause, loop=0, quality=80)
