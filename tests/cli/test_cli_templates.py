"""Files to begin with, as `rlctl init` writes them: checked, trained, gone on with."""

import json
from pathlib import Path

from support.cli_scenario import Rlctl


def test_the_template_of_a_vector_env_passes_its_check_and_trains(rlctl: Rlctl, place: Path) -> None:
    wrong = rlctl("init", "--vector-env", "my-boats.py")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "letters, digits and _ only" in wrong.err
    written = rlctl("init", "--vector-env", "boat_vectors.py")
    assert "rlctl check boat_vectors.py:MyVectorEnv" in written.out
    assert "rlctl launch --algo ppo --env boat_vectors.py:MyVectorEnv" in (place / "boat_vectors.py").read_text()
    checked = rlctl("check", "boat_vectors.py:MyVectorEnv")
    assert checked.code == 0, checked.err
    assert "fit to train on" in checked.out
    launched = rlctl("launch", "-f", "tiny.yaml", "env.id=boat_vectors.py:MyVectorEnv", "env.infos=[distance]")
    assert launched.code == 0, launched.err
    assert "boat_vectors:MyVectorEnv (VectorEnv)" in launched.out
    assert "a VectorEnv can neither seed nor replay" in rlctl("show", "last").out
    again = rlctl("resume", "last", "train.epochs=4", "-q")
    assert again.code == 0, again.err


def test_the_template_of_a_world_passes_its_check_trains_resumes_and_is_planned_in(rlctl: Rlctl, place: Path) -> None:
    written = rlctl("init", "--world", "harbour.py")
    assert "rlctl check harbour.py:MyWorld" in written.out
    checked = rlctl("check", "harbour.py:MyWorld", "--steps", "300")
    assert checked.code == 0, checked.err
    assert checked.out.startswith("harbour:MyWorld: fit to train on, after 300 steps in 3 whole episodes")  # no finding
    launched = rlctl("launch", "-f", "tiny.yaml", "env.id=harbour.py:MyWorld", "env.params.wind=0.3")
    assert launched.code == 0, launched.err
    assert "harbour:MyWorld (native world)" in launched.out
    again = rlctl("resume", "last", "train.epochs=4", "-q")
    assert again.code == 0, again.err
    planned = rlctl("eval", "last", "--planner", "cem", "planner.horizon=3", "planner.candidates=8", "--episodes", "2")
    assert planned.code == 0, planned.err
    status = json.loads(rlctl("show", "last", "--json").out)
    assert status["exact"] is True
