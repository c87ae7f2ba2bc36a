"""Datasets on disk: written and read back exactly, sampled by counters, refused with a remedy where they do not fit."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Spaces
from rlstudio.data.datasets.episodes import RecordedEpisode
from rlstudio.data.datasets.minari_files import read_episodes, read_replay, write_dataset
from rlstudio.data.datasets.minari_source import DatasetSource
from rlstudio.envs.gym.spaces import convert_action, to_gymnasium

OBSERVATION = Box((3,), "float32", (-1.0,), (1.0,))
WORLD = Spaces(OBSERVATION, Discrete(4, start=5))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def episode(number: int, steps: int, *, died: bool, spaces: Spaces = WORLD) -> RecordedEpisode:
    """Observation t of episode n is n + t / 100, its reward n."""
    seen = (number + np.arange(steps + 1, dtype=np.float32)[:, None] / 100) * np.ones(3, np.float32)
    ends = np.arange(steps) == steps - 1
    actions = np.arange(steps) % 4
    if isinstance(spaces.action, Box):
        actions = np.sin(np.arange(steps * 2, dtype=np.float32)).reshape(steps, 2)
    return RecordedEpisode(
        seen, actions, np.full(steps, number, np.float32), ends & died, ends & (not died), seed=number
    )


def written(spaces: Spaces = WORLD, name: str = "toys/walk-v0", env: Any = None) -> list[RecordedEpisode]:
    episodes = [episode(n, steps, died=n % 2 == 1, spaces=spaces) for n, steps in enumerate((4, 7, 1, 5))]
    write_dataset(name, episodes, spaces, env, algorithm="ppo", code="abc123", description="four walks")
    return episodes


@pytest.mark.parametrize("action", [Discrete(4, start=5), Box((2,), "float32", (-1.0,), (1.0,))], ids=str)
def test_what_is_written_is_what_is_read(action: Space) -> None:
    spaces = Spaces(OBSERVATION, action)
    for wrote, read in zip(written(spaces), read_episodes("toys/walk-v0", spaces), strict=True):
        for name in ("observations", "actions", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(wrote, name), getattr(read, name)), name


def test_minari_itself_reads_what_we_write(tmp_path: Path) -> None:
    import minari

    written(Spaces(Box((4,), "float32", (-1.0,), (1.0,)), Discrete(2)), env=None)
    env = gymnasium.spec("CartPole-v1")
    write_dataset("toys/cart-v0", [episode(1, 3, died=True)], WORLD, env, algorithm="ppo", code="abc", description="d")
    dataset = minari.load_dataset("toys/cart-v0")
    assert dataset.env_spec.id == "CartPole-v1"
    assert dataset.storage.metadata["algorithm_name"] == "ppo"
    assert dataset.storage.metadata["code_permalink"] == "abc"
    assert dataset[0].actions.tolist() == [5, 6, 7], "the numbering of the environment"
    assert next(iter(dataset.storage.get_episode_metadata([0])))["seed"] == 1
    with pytest.raises(UserError, match="already exists"):
        write_dataset("toys/cart-v0", [episode(1, 3, died=True)], WORLD, env, algorithm="", code="", description="")


def test_rows_are_transitions_in_order(tmp_path: Path) -> None:
    episodes = written()
    rows = read_replay("toys/walk-v0", WORLD).all()
    assert len(rows) == 4 + 7 + 1 + 5
    wanted = np.concatenate([e.observations[:-1] for e in episodes])
    assert np.array_equal(rows.observations.numpy(), wanted)
    assert np.array_equal(rows.next_observations.numpy(), np.concatenate([e.observations[1:] for e in episodes]))
    assert rows.dones.nonzero()[:, 0].tolist() == [3, 10, 11, 16]
    assert rows.terminated.nonzero()[:, 0].tolist() == [10, 16]
    by_folder = read_replay(str(tmp_path / "datasets" / "toys" / "walk-v0"), WORLD).all()
    assert torch.equal(by_folder.observations, rows.observations)


def test_the_best_share_keeps_the_episodes_that_returned_most() -> None:
    written()  # returns 0, 7, 2 and 15
    assert sorted(set(read_replay("toys/walk-v0", WORLD, best_share=0.5).all().rewards.tolist())) == [1.0, 3.0]
    assert len(read_replay("toys/walk-v0", WORLD, best_share=0.01)) == 5


def test_a_dict_of_observations_survives() -> None:
    spaces = Spaces(Dict((("a", OBSERVATION), ("b", Discrete(3)))), Discrete(4, start=5))
    one = episode(1, 4, died=True)
    shown = {"a": one.observations, "b": np.array([0, 1, 2, 0, 1])}
    wrote = RecordedEpisode(shown, one.actions, one.rewards, one.terminated, one.truncated)
    write_dataset("toys/dict-v0", [wrote], spaces, None, algorithm="", code="", description="")
    rows = read_replay("toys/dict-v0", spaces).all()
    assert rows.next_observations["b"].tolist() == [1, 2, 0, 1]
    assert torch.equal(rows.observations["a"], torch.from_numpy(one.observations[:-1]))


def source(**settings: Any) -> DatasetSource:
    return DatasetSource("toys/walk-v0", WORLD, Rng(3), **{"batch_size": 6, **settings})


def test_samples_are_a_function_of_their_number_and_a_resumed_source_goes_on() -> None:
    written()
    straight = source()
    drawn = [straight.next().observations for _ in range(4)]
    assert straight.env_steps == 24
    again = source()
    again.load_state_dict({"samples": 2, "fingerprint": straight.fingerprint})
    assert torch.equal(again.next().observations, drawn[2])
    assert torch.equal(again.next().observations, drawn[3])
    assert again.state_dict() == straight.state_dict()
    assert again.env_steps == 24
    assert not torch.equal(drawn[0], drawn[1])


def test_windows_do_not_reach_across_episodes() -> None:
    written()
    windows = source(horizon=3, batch_size=64).next()
    assert windows.shape == (3, 64)
    for n in range(64):
        live = windows.weights[:, n] > 0
        assert live[0]
        assert len(set(windows.rewards[live, n].tolist())) == 1, "of one episode"
        ended = windows.dones[:, n].nonzero()
        assert int(live.sum()) == (int(ended[0]) + 1 if len(ended) else 3)


def test_all_rows_are_fresh_once() -> None:
    written()
    reads = source()
    reads.next()
    assert len(reads.fresh()) == 17
    reads.next()
    assert len(reads.fresh()) == 0


def test_other_rows_than_those_a_run_began_with_are_refused() -> None:
    written()
    reads = source()
    reads.load_state_dict({"samples": 1, "fingerprint": "0" * 64})
    with pytest.raises(UserError, match="is not what this run began with"):
        reads.next()


def test_it_is_read_only_when_a_sample_is_asked_for() -> None:
    nothing = source()
    with pytest.raises(UserError, match=r"no dataset toys/walk-v0 here; run `minari download toys/walk-v0`"):
        nothing.next()


def test_spaces_that_do_not_fit_are_refused_with_both(tmp_path: Path) -> None:
    written()
    with pytest.raises(Incompatible, match=r"toys/walk-v0 has action Discrete\(4\), the environment Discrete\(2\)"):
        read_replay("toys/walk-v0", Spaces(OBSERVATION, Discrete(2)))
    with pytest.raises(Incompatible, match="has observation"):
        read_replay("toys/walk-v0", Spaces(Box((2,), "float32", (-1.0,), (1.0,)), Discrete(4)))


def test_a_file_that_would_have_its_environment_built_is_refused(tmp_path: Path) -> None:
    written()
    path = tmp_path / "datasets" / "toys" / "walk-v0" / "data" / "metadata.json"
    known = json.loads(path.read_text())
    del known["observation_space"]
    path.write_text(json.dumps({**known, "env_spec": '{"entry_point": "os:system"}'}))
    with pytest.raises(UserError, match="does not say its spaces"):
        read_replay("toys/walk-v0", WORLD)
    path.write_text("{}")
    with pytest.raises(UserError, match="does not say its spaces"):
        read_replay("toys/walk-v0", WORLD)


def spoiled(what: str, where: Any, value: float, spaces: Spaces = WORLD) -> RecordedEpisode:
    """An episode with one number in it that cannot be learned from."""
    one = episode(1, 4, died=True, spaces=spaces)
    column = np.array(getattr(one, what), None if what == "actions" else np.float64)
    column[where] = value
    return replace(one, **{what: column})


@pytest.mark.parametrize(
    ("what", "where", "value", "message"),
    [
        ("observations", (2, 1), np.nan, "step 2: observation has nan, which is not finite"),
        ("observations", (4, 0), -np.inf, "step 4: observation has -inf, which is not finite"),
        ("observations", (0, 0), 1e300, "step 0: observation has inf, which is not finite"),
        ("rewards", 3, np.nan, "step 3: reward has nan, which is not finite"),
        ("rewards", 0, 1e300, "step 0: reward has inf, which is not finite"),
        ("actions", 1, 9, "step 1: action has 9, which is not one of its choices"),
        ("actions", 1, -1, "step 1: action has -1, which is not one of its choices"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_by_its_place(what: str, where: Any, value: float, message: str) -> None:
    box = Box((3,), "float32", (-np.inf,), (np.inf,))
    spaces = Spaces(box, WORLD.action)
    episodes = [episode(0, 2, died=True), spoiled(what, where, value)]
    write_dataset("toys/bad-v0", episodes, spaces, None, algorithm="", code="", description="")
    with pytest.raises(
        UserError, match=rf"^train.dataset: toys/bad-v0, episode 1, {message}; record it again"
    ) as caught:
        read_replay("toys/bad-v0", spaces)
    assert "\n" not in str(caught.value)


def test_an_action_that_is_no_number_is_refused() -> None:
    spaces = Spaces(OBSERVATION, Box((2,), "float32", (-1.0,), (1.0,)))
    bad = spoiled("actions", (3, 1), np.nan, spaces)
    write_dataset("toys/bad-v0", [bad], spaces, None, algorithm="", code="", description="")
    with pytest.raises(UserError, match=r"toys/bad-v0, episode 0, step 3: action has nan, which is not finite"):
        read_replay("toys/bad-v0", spaces)


@pytest.mark.parametrize(
    ("entry", "message"), [("a", "nan, which is not finite"), ("b", "3, which is not one of its choices")]
)
def test_an_entry_of_a_dict_is_refused_by_its_name(entry: str, message: str) -> None:
    spaces = Spaces(Dict((("a", OBSERVATION), ("b", Discrete(3)))), WORLD.action)
    one = episode(1, 4, died=True)
    shown = {"a": one.observations.copy(), "b": np.array([0, 1, 2, 0, 1])}
    shown[entry][2] = np.nan if entry == "a" else 3
    bad = replace(one, observations=shown)
    write_dataset("toys/bad-v0", [bad], spaces, None, algorithm="", code="", description="")
    with pytest.raises(UserError, match=rf"episode 0, step 2: observation '{entry}' has {message}"):
        read_replay("toys/bad-v0", spaces)


def test_a_column_that_is_too_short_is_refused() -> None:
    one = episode(1, 4, died=True)
    short = replace(one, actions=one.actions[:3])
    write_dataset("toys/bad-v0", [short], WORLD, None, algorithm="", code="", description="")
    with pytest.raises(UserError, match=r"toys/bad-v0, episode 0: 3 rows of action where 4 belong"):
        read_replay("toys/bad-v0", WORLD)


@pytest.mark.parametrize(("flips", "least"), [(40, 27), pytest.param(80, 50, marks=pytest.mark.slow)])
def test_a_file_that_is_cut_off_or_damaged_is_one_line(tmp_path: Path, flips: int, least: int) -> None:
    """At any length, and with any bits: read, or refused with a remedy."""
    written()
    folder = tmp_path / "datasets" / "toys" / "walk-v0" / "data"
    refused = 0
    for name in ("main_data.hdf5", "metadata.json"):
        path, good = folder / name, (folder / name).read_bytes()
        cuts = [good[:length] for length in (0, 1, 8, 100, len(good) // 2, len(good) * 9 // 10, len(good) - 1)]
        generator = np.random.default_rng(0)
        places, bits = generator.integers(len(good), size=flips), generator.integers(8, size=flips)
        for place, bit in zip(places, bits, strict=True):
            flipped = bytearray(good)
            flipped[place] ^= 1 << bit
            cuts.append(bytes(flipped))
        for number, damaged in enumerate(cuts):
            path.write_bytes(damaged)
            message = ""
            try:
                read_replay("toys/walk-v0", WORLD)
            except UserError as error:
                message = str(error)
            if number < 7 or message:  # what is cut off is never taken for whole; a bit may be in no number
                refused += 1
                assert message.startswith("train.dataset: toys/walk-v0")
                assert "\n" not in message
        path.write_bytes(good)
    assert refused > least
    assert len(read_replay("toys/walk-v0", WORLD)) == 17


def test_a_missing_extra_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(
        UserError, match=r'train.dataset: any-v0 needs minari; run `pip install "minari>=0.5.4,<0.6" "h5py>=3.8,<4"`'
    ):
        read_replay("any-v0", WORLD)


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3, start=-1),
        MultiDiscrete((2, 3), start=(5, -1)),
        MultiDiscrete((2, 2)),
        Box((2,), "float32", (-2.0, 0.0), (1.0, 5.0)),
    ],
    ids=str,
)
def test_spaces_go_to_gymnasium_and_back(space: Space) -> None:
    assert convert_action(to_gymnasium(space), "toy") == space
