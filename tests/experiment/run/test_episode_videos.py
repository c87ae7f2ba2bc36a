"""`eval.videos`: films of the best and the worst episode, which change nothing of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlstudio.core.config import config_hash
from rlstudio.core.errors import ConfigError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging import video
from rlstudio.experiment.run import episode_videos
from rlstudio.experiment.run.signals import Interrupted
from support.experiments import tiny
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, run_to_the_end


def config(videos: int) -> ExperimentConfig:
    return tiny(
        env={"vectorization": "sync", "max_episode_steps": 12},
        train={"epochs": 2},
        eval={"every_epochs": 1, "episodes": 3, "final_episodes": 3, "videos": videos},
    )


def films(run: RunFolder) -> list[str]:
    return sorted(path.name for path in (run.path / "artifacts/videos").glob("*"))


def test_the_newest_are_kept_and_nothing_else_changes(tmp_path: Path) -> None:
    plain, filmed = config(0), config(2)
    assert config_hash(plain) == config_hash(filmed)
    one, other = run_to_the_end(plain, tmp_path / "plain"), run_to_the_end(filmed, tmp_path / "filmed")
    assert_same_result(other, one)
    assert not (one.path / "artifacts/videos").exists()
    assert films(other) == sorted(
        f"epoch-000002{end}-{which}.mp4" for end in ("", "-final") for which in ("best", "worst")
    )
    assert all((other.path / "artifacts/videos" / name).stat().st_size > 1000 for name in films(other))


def test_a_film_shows_the_episode_that_was_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        episode_videos, "film_seeds", lambda *args, **more: made.append(video.film_seeds(*args, **more)) or made[-1]
    )
    with start(config(9), tmp_path) as session:
        for _ in session:
            pass
        assert session.evaluation is not None
        returns = session.evaluation.returns
    assert [film.returns[0] for film in made[-2:]] == [max(returns), min(returns)]
    assert len(made) == 2 * 4  # at the start, after two epochs, after training


def test_what_cannot_be_filmed_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "_drawn", lambda *args: 1 / 0)
    run = run_to_the_end(config(2), tmp_path)
    assert run.read_status().state == RunState.COMPLETED
    assert [event["reason"] for event in run.events() if event["kind"] == "video_failed"] == ["division by zero"]
    assert films(run) == []


def test_a_run_that_is_stopped_while_it_films_judges_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = []

    def film(agent: Any, cfg: Any, path: Path, poll: Any, **more: Any) -> None:
        for session in stopping:
            if session.position.epoch == 2:
                session.signals.received = 15
        poll()
        path.write_bytes(b"a film")

    monkeypatch.setattr(episode_videos, "film_seeds", film)
    whole = run_to_the_end(config(2), tmp_path / "whole")
    with start(config(2), tmp_path / "cut") as session:
        stopping.append(session)
        with pytest.raises(Interrupted):
            for _ in session:
                pass
    assert {name[:12] for name in films(session.folder)} == {"epoch-000000", "epoch-000001"}
    stopping.clear()
    with resume(session.folder) as going:
        for _ in going:
            pass
    assert_same_result(session.folder, whole)
    assert films(session.folder) == films(whole)


def test_opponents_are_not_in_a_film() -> None:
    with pytest.raises(ConfigError, match=r"eval.videos: a film has no opponents of eval.opponents in it"):
        tiny("ppo", env={"id": "rlstudio/TicTacToe-v0"}, eval={"videos": 1, "opponents": ["random"]})
