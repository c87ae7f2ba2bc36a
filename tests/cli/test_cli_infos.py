"""`env.infos` by command: evaluated in text and JSON, recorded, and refused in one line."""

from pathlib import Path

import numpy as np
import pytest

from rlstudio.experiment.metrics.reader import read_metrics
from support.cli_scenario import Rlctl
from support.env_toys import register_toys
from support.experiments import tiny_yaml

ERRAND = ("env.id=toys/Errand-v0", "env.infos=[is_success,elsewhere]")


@pytest.fixture(autouse=True)
def _toys() -> None:
    register_toys()


def test_eval_shows_what_the_episodes_gave(rlctl: Rlctl, place: Path) -> None:
    launched = rlctl("launch", "-f", "tiny.yaml", *ERRAND, "-q")
    assert launched.code == 0, launched.err
    document = rlctl("eval", "last", "--episodes", 9, "--json").document
    given = document["infos"]["is_success"]
    assert len(given) == 9
    assert set(given) <= {0.0, 1.0}
    assert document["infos"]["elsewhere"] == [None] * 9
    lines = rlctl("eval", "last", "--episodes", 9).out.splitlines()
    (rate,) = [line.split()[1] for line in lines if line.split()[0] == "is_success"]
    assert float(rate) == pytest.approx(np.mean(given), abs=1e-4)
    assert "  elsewhere no episode gave a number" in lines


def test_a_fork_may_choose_other_keys(rlctl: Rlctl, place: Path) -> None:
    """Also with a replay of its parent: what was not kept then is missing in its rows."""
    (place / "dqn.yaml").write_text(tiny_yaml("dqn", env={"id": "toys/Errand-v0", "infos": ["ones"]}))
    assert rlctl("launch", "-f", "dqn.yaml", "-q").code == 0
    child = rlctl("fork", "last", "env.infos=[is_success]", "train.epochs=5", "-q")
    assert child.code == 0, child.err
    run, parent = sorted((place / "runs").glob("2*"), reverse=True)
    own = [record for record in read_metrics(run) if record.step > 3 * 64]  # after what is copied of its parent
    assert {record.key for record in own} >= {"rollout/is_success", "eval/is_success"}
    assert not any(record.key.endswith("/ones") for record in own)
    assert "rollout/ones" in {record.key for record in read_metrics(parent)}


def test_a_wrong_key_is_one_line(rlctl: Rlctl, place: Path) -> None:
    wrong = rlctl("launch", "-f", "tiny.yaml", "env.infos=[a.b]")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "env.infos: 'a.b' is no plain key" in wrong.err
    native = rlctl("launch", "-f", "tiny.yaml", "env.infos=[x]", "env.vectorization=native")
    assert (native.code, native.err.count("\n")) == (2, 1)
    assert "env.vectorization: a native world gives no info for env.infos" in native.err
