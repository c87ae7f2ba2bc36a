"""An image environment behind Gymnasium's frame stack, from the wrapper to replay and through a checkpoint."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import ClipReward, FrameStackObservation

from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Box, Spaces, Stack, from_json, to_json
from rlstudio.data.replay.frames import FrameStore
from rlstudio.data.replay.rows import RowStore
from rlstudio.envs.gym.spaces import Renumbered, convert_spaces
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.training import refusals
from rlstudio.experiment.training.build import build_runtime, build_trainer
from support.experiments import tiny

STACKED = {"FrameStackObservation": {"stack_size": 3}}


class Snow(gymnasium.Env):
    """Random pictures; an episode lasts 1 to 9 steps, then it dies or its time is up."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, shape=(4, 5), dtype="uint8", start=0):
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, dtype)
        self.action_space = gymnasium.spaces.Discrete(2, start=start)

    def _picture(self):
        space = self.observation_space
        return self.np_random.integers(0, 256, space.shape).astype(space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 10))
        return self._picture(), {}

    def step(self, action):
        self.left -= 1
        over, died = self.left == 0, bool(self.np_random.random() < 0.5)
        return self._picture(), float(self.np_random.random()), over and died, over and not died, {}


@pytest.fixture(autouse=True)
def snow():
    gymnasium.register("rlstudio_test/Snow-v0", entry_point=Snow)
    yield
    gymnasium.registry.pop("rlstudio_test/Snow-v0")


def trainer(wrappers=(STACKED,), algo="dqn", capacity=40, seed=3):
    cfg = tiny(
        algo,
        env={"id": "rlstudio_test/Snow-v0", "seed": seed, "wrappers": list(wrappers)},
        policy={"network": {"kind": "mlp"}},
        train={"n_step": 2, "target_every": 5, "train_every": 4, "gradient_steps": 1},
        buffer={"capacity": capacity},
    )
    return build_trainer(cfg, build_runtime(cfg))


def stack_of(env) -> Stack | None:
    return convert_spaces(env, "snow").observation.stack


def test_the_outermost_frame_stack_of_byte_images_is_recognised_and_nothing_else():
    assert stack_of(FrameStackObservation(Snow(), 3)) == Stack(3, "reset")
    assert stack_of(FrameStackObservation(Snow((4, 5, 3)), 4, padding_type="zero")) == Stack(4, "zero")
    assert stack_of(Renumbered(FrameStackObservation(Snow(start=5), 3))) == Stack(3, "reset")
    assert stack_of(Snow()) is None
    assert stack_of(ClipReward(FrameStackObservation(Snow(), 3), 0, 1)) is None
    assert stack_of(FrameStackObservation(Snow(), 1)) is None
    assert stack_of(FrameStackObservation(Snow((4,)), 3)) is None
    assert stack_of(FrameStackObservation(Snow(dtype="float32"), 3)) is None
    assert stack_of(FrameStackObservation(Snow(), 3, padding_type=np.ones((4, 5), np.uint8))) is None


def test_a_space_keeps_its_stack_in_json():
    space = convert_spaces(FrameStackObservation(Snow(), 3), "snow").observation
    assert from_json(to_json(space)) == space
    assert "stack" not in to_json(Box((2,), "uint8", (0,), (255,)))


@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_samples_through_the_real_wrapper_are_those_of_a_plain_store(padding, monkeypatch):
    wrappers = [{"FrameStackObservation": {"stack_size": 3, "padding_type": padding}}]
    once = trainer(wrappers)
    assert isinstance(once.source.replay.store, FrameStore)
    monkeypatch.setattr("rlstudio.data.replay.buffer.stores_frames", lambda spaces: False)
    plain = trainer(wrappers)
    assert type(plain.source.replay.store) is RowStore
    for _ in range(60):
        for one in (once, plain):
            one.progress(0.5)
            one.train_step()
        mine, theirs = once.source.last, plain.source.last
        assert all(torch.equal(getattr(mine, name), getattr(theirs, name)) for name in theirs.names)
    assert torch.equal(once.optimizer.flat.data, plain.optimizer.flat.data)


def test_a_run_restored_from_disk_continues_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr("rlstudio.data.replay.buffer.SEGMENT_ROWS", 8)
    straight, cut, resumed = (trainer() for _ in range(3))
    captured = lambda one: capture(one, {}, seed=0, attempt=0, meta={})  # noqa: E731
    with FileLease(tmp_path) as lease:
        checkpoints = Checkpoints(tmp_path, "snow", lease)
        for step in range(1, 38):
            for one in (straight, cut):
                one.train_step()
            if step % 4 == 1:  # most segments are written long before the last checkpoint refers to them
                checkpoints.save(captured(cut), step=step, manifest={})
        restore(checkpoints.load(37).content, resumed, {})
    assert state_hash(captured(resumed)) == state_hash(captured(straight))
    for one in (straight, resumed):
        for _ in range(25):
            one.train_step()
    assert state_hash(captured(resumed)) == state_hash(captured(straight))


def test_a_buffer_that_cannot_fit_is_refused_with_the_memory_of_frames_stored_once(monkeypatch):
    rows = 10_000_000
    per_row = 4 * 5 + 40  # one picture, and a record without pictures
    needed = rows * per_row
    monkeypatch.setattr(refusals, "usable_ram", lambda: int(needed / 0.9) + 10**6)
    trainer(capacity=rows)
    monkeypatch.setattr(refusals, "usable_ram", lambda: int(needed / 0.9) - 10**6)
    with pytest.raises(ConfigError, match=rf"buffer.capacity: 10,000,000 rows of {per_row} bytes need 0.6 GiB"):
        trainer(capacity=rows)


def test_spaces_of_one_env_know_their_stack():
    spaces: Spaces = trainer().source.collector.env.spaces
    assert spaces.observation == Box((3, 4, 5), "uint8", (0.0,), (255.0,), Stack(3, "reset"))
