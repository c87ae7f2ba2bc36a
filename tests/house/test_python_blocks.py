"""The Python of the pages runs as it stands, in a folder where a reader has done before what the page says."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstudio import orchestrator
from rlstudio.cli.app import main
from rlstudio.experiment.config.experiment import experiment_from
from support.axelrod_toys import stand_in
from support.experiments import tiny_data
from support.pages import BLOCK, DOCS, EXAMPLES, ROOT
from support.short_lines import small

ELSEWHERE = {
    "README.md": "tests/house/test_wheel.py",
    "docs/tutorial.md": "tests/house/test_documentation.py",
    "docs/howto/from-cleanrl.md": "tests/house/test_coming_from.py",
    "docs/howto/from-rllib.md": "tests/house/test_coming_from.py",
    "docs/howto/from-sb3.md": "tests/house/test_coming_from.py",
    "docs/howto/sweeps.md": "tests/control/sweep/test_sweep_runs.py",
    "docs/howto/teams.md": "tests/experiment/run/test_teams.py",
    "docs/howto/workers.md": "tests/scale/test_async_workers.py",
}
"""Pages whose Python another test runs, or does the same as."""

SHORT = {
    '"env.max_episode_steps=200"': ", ".join(map(repr, ["env.max_episode_steps=20", *small("ppo")])),
    '"configs/ipd/ppo.yaml", ': "".join(f"{word!r}, " for word in ["configs/ipd/ppo.yaml", *small("ppo")]),
    "train.epochs=120": "train.epochs=3",
    "run.rewind(20_000)": "run.rewind(64)",
    '"runs/RUN"': "newest",
}
"""What a page says of a run that is larger than one here."""

FILE = re.compile(r"<!-- file .*?<!-- /file -->", re.DOTALL)


def shown(page: Path) -> list[str]:
    """Without files of the examples, which have tests of their own, and suites for pytest, as in tests/contracts."""
    python = [body for language, body in BLOCK.findall(FILE.sub("", page.read_text())) if language == "python"]
    return [body for body in python if not body.startswith("from rlstudio.testing import")]


WHOLE = [page for page in sorted([ROOT / "README.md", *DOCS.rglob("*.md")]) if shown(page)]
NAMES = [page.relative_to(ROOT).as_posix() for page in WHOLE]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With two groups of runs, the newest left as `last`, a bundle, and the environments of the examples."""
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
        (folder / "configs").symlink_to(ROOT / "configs")
        shutil.copy(EXAMPLES / "my_worlds.py", folder)
        for name, lr in (("lr1e-3", 1e-3), ("lr1e-4", 1e-4)):
            for seed in (1, 2):
                data = tiny_data("ppo", eval={"every_epochs": 1, "episodes": 2, "final_episodes": 2})
                orchestrator.run(data, f"train.lr={lr}", name=name, seed=seed, progress=False)
        assert main(["export", "last", "-o", "bundles/cartpole", "--format", "bundle"]) == 0
        yield folder


@pytest.fixture
def names(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the text around a block speaks of, in a copy of that folder. Of the Axelrod library, which no profile of
    the set-up has, a part stands in."""
    import my_worlds

    monkeypatch.setitem(sys.modules, "axelrod", stand_in())

    shutil.copytree(place, tmp_path / "place", symlinks=True)
    monkeypatch.chdir(tmp_path / "place")
    newest = max(Path("runs").glob("2*"), key=lambda path: path.name)
    observation = [0.0, 0.0, 0.05, 0.0]
    return {"np": np, "observation": observation, "board": np.zeros(4), "Drone": my_worlds.Corridor, "newest": newest}


@pytest.mark.learning
@pytest.mark.parametrize("page", [name for name in NAMES if name not in ELSEWHERE])
def test_the_python_of_a_page_runs(page: str, names: dict[str, Any]) -> None:
    for number, body in enumerate(shown(ROOT / page)):
        if body.startswith("# look.py"):
            with orchestrator.get("last").rewind(64) as moment:
                names["trainer"] = moment.trainer
                run_block(body, page, number, names)
        else:
            run_block(body, page, number, names)


def run_block(body: str, page: str, number: int, names: dict[str, Any]) -> None:
    for word, short in SHORT.items():
        body = body.replace(word, short)
    exec(compile(body, f"{page}, block {number + 1}", "exec", dont_inherit=True), names)


def test_the_other_pages_are_run_elsewhere() -> None:
    assert set(ELSEWHERE) <= set(NAMES)
    assert [place for place in ELSEWHERE.values() if not (ROOT / place).is_file()] == []


def test_a_run_of_the_page_on_own_environments_goes_on_for_longer() -> None:
    """At its full length, which no block above has."""
    page = (DOCS / "howto/own-env.md").read_text()
    (wanted,) = re.findall(r'orchestrator\.resume\(run\.id, "train\.epochs=(\d+)"', page)
    assert int(wanted) > experiment_from({"env": {"id": "CartPole-v1"}, "policy": {"algo": "ppo"}}).train.epochs
