"""The example of an own World by command: trained, resumed, evaluated by its equations; and parameters of ours."""

from pathlib import Path

import pytest
import yaml

from rlstudio import open_bundle
from support.cli_scenario import Rlctl

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def config_of(place: Path) -> dict:
    (path,) = (place / "runs").glob("*/config.yaml")
    return yaml.safe_load(path.read_text())


def test_an_imported_world_is_native_resumes_and_can_be_planned_in(rlctl: Rlctl, place: Path) -> None:
    launched = rlctl(
        *("launch", "--import", "my_native_world", "-f", "tiny.yaml", "env.id=Boat-v0", "env.params.wind=0.3")
    )
    assert launched.code == 0, launched.err
    assert "Boat-v0 (native world)" in launched.out
    stored = config_of(place)
    assert (stored["env"]["params"], stored["imports"]) == ({"wind": 0.3}, ["my_native_world"])
    again = rlctl("resume", "last", "train.epochs=4", "-q")
    assert again.code == 0, again.err
    planned = rlctl("eval", "last", "--planner", "cem", "planner.horizon=3", "planner.candidates=8", "--episodes", "2")
    assert planned.code == 0, planned.err


def test_parameters_by_command(rlctl: Rlctl, place: Path) -> None:
    wrong = rlctl("launch", "-f", "tiny.yaml", "env.params.gravitty=9.0")
    assert wrong.code == 2
    assert "env.params: CartPole-v1 has no parameter 'gravitty'; did you mean gravity? known: gravity" in wrong.err
    assert wrong.err.count("\n") == 1
    text = rlctl("launch", "-f", "tiny.yaml", "env.params.gravity=heavy")
    assert text.code == 2
    assert "env.params.gravity" in text.err
    launched = rlctl("launch", "-f", "tiny.yaml", "env.params.gravity=9.0")
    assert launched.code == 0, launched.err
    assert "CartPole-v1 (native world)" in launched.out  # evaluated there too
    exported = rlctl("export", "last", "--format", "bundle", "-o", place / "bundle")
    assert exported.code == 0, exported.err
    assert open_bundle(place / "bundle").experiment().env.params == {"gravity": 9.0}
