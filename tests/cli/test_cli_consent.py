"""A run folder never causes an import: what may be imported is named by the user, or by the store for its own runs."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import yaml

from rlstudio import load_agent, orchestrator
from rlstudio.cli.app import main
from rlstudio.control.queue.resources_of_runs import KnownResources
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from support.cli_scenario import TINY, Rlctl
from support.repetition import few

WORLD = """\
import gymnasium

entry_point = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
gymnasium.register("Allowed-v0", entry_point=entry_point, max_episode_steps=20)
"""
MODULE = "allowed_world"
PAYLOAD = "import pathlib\npathlib.Path({!r}).touch()\n"
OWNED_TABLES = ("run", "worker", "sweep")
IDS = ["abcdefgh12", "20261115-093012123-ppo-cartpole-v1-3f2a"]

OPENING = {
    "eval": ("eval", "RUN", "--episodes", 1),
    "eval --planner": ("eval", "RUN", "--episodes", 1, "--planner", "cem"),
    "export": ("export", "RUN", "-o", "bundle", "--format", "bundle"),
    "fork": ("fork", "RUN", "train.epochs=6", "-q"),
    "fork --detach": ("fork", "RUN", "train.epochs=6", "--detach"),
    "play": ("play", "RUN", "--video", "film.mp4"),
    "promote": ("promote", "RUN", "--model", "cart"),
    "record": ("record", "RUN", "--episodes", 1, "--dataset", "cart/one-v0"),
    "reproduce": ("reproduce", "RUN", "--epochs", 1, "-q"),
    "resume": ("resume", "RUN", "train.epochs=6", "-q"),
    "resume --detach": ("resume", "RUN", "train.epochs=6", "--detach"),
    "rewind": ("rewind", "RUN", "--at", 64, "--json"),
}
OPENING_OTHERS = {
    "replay": ("replay", "RUN"),
    "replay quarantine": ("replay", "RUN", "quarantine", 0),
    "tournament": ("tournament", "RUN", "--player", "random"),
}
"""They open runs of other algorithms and worlds than the one here."""

READING = {
    "ls": ("ls",),
    "show": ("show", "RUN"),
    "logs": ("logs", "RUN"),
    "diff": ("diff", "RUN", "RUN"),
    "plot": ("plot", "RUN"),
    "compare": ("compare", "RUN"),
    "metrics": ("metrics", "RUN"),
    "profile": ("profile", "RUN"),
    "report": ("report", "RUN", "-o", "report.html"),
    "send": ("send", "RUN", "--to", "csv"),
    "adopt": ("adopt", "runs/RUN"),
}


def of(command: tuple[object, ...], run_id: str) -> list[object]:
    return [str(word).replace("RUN", run_id) for word in command]


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop(MODULE, None)


def hostile(trained: Path, place: Path, run_id: str, module: str) -> Path:
    """A folder of somebody else, with a payload in it, in the runs folder of this place."""
    (source,) = (folder for folder in trained.iterdir() if folder.name.startswith("2"))
    folder = place / "runs" / run_id
    shutil.copytree(source, folder)
    for name in ("status.json", "events.jsonl"):
        (folder / name).write_text((folder / name).read_text().replace(source.name, run_id))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "imports": [module]}))
    (folder / "artifacts" / "payload.py").write_text(PAYLOAD.format(str(place / "ran")))
    (folder / "payload.py").write_text(PAYLOAD.format(str(place / "ran")))
    return folder


COMMANDS = [*OPENING, *OPENING_OTHERS, *READING]


def is_quick(case: tuple[str, bool, str]) -> bool:
    """Every command with a run that is adopted and with one that is not, the two kinds of ids in turn."""
    name, is_adopted, run_id = case
    return IDS.index(run_id) == (COMMANDS.index(name) + is_adopted) % 2


@pytest.mark.parametrize(("name", "is_adopted", "run_id"), few(product(COMMANDS, [False, True], IDS), is_quick))
def test_b1_no_command_imports_what_a_folder_names(
    rlctl: Rlctl, place: Path, trained: Path, name: str, is_adopted: bool, run_id: str
) -> None:
    module = f"runs.{run_id}.artifacts.payload"
    hostile(trained, place, run_id, module)
    if is_adopted and name != "adopt":
        assert rlctl("adopt", f"runs/{run_id}").code == 0
    done = rlctl(*of({**OPENING, **OPENING_OTHERS, **READING}[name], run_id))
    assert not (place / "ran").exists()
    if name not in READING:
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert f"the folder wants to import {module}, and it was not launched here" in done.err
        assert f"--import {module}" in done.err
    else:
        assert done.code == 0


@pytest.mark.parametrize("inside", ["", "runs", "runs/abcdefgh12"])
def test_b1_nothing_below_a_runs_folder_is_imported_even_if_named(
    rlctl: Rlctl, place: Path, trained: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    hostile(trained, place, "abcdefgh12", "payload")
    monkeypatch.chdir(place / inside)
    whole = "runs/abcdefgh12/artifacts/payload"
    module = whole.removeprefix(f"{inside}/").replace("/", ".")
    done = rlctl("eval", "abcdefgh12", "--import", module, "--runs-dir", place / "runs")
    assert done.code == 2
    assert not (place / "ran").exists()
    if not inside:
        assert "is below a runs folder, from which nothing is imported" in done.err


@pytest.fixture(scope="module")
def made_there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was made with a module of its user."""
    there = tmp_path_factory.mktemp("there")
    (there / f"{MODULE}.py").write_text(WORLD)
    (there / "tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(there)
        patch.setattr(sys, "path", list(sys.path))
        assert main(["launch", "--import", MODULE, "-f", "tiny.yaml", "env.id=Allowed-v0", "-q"]) == 0
        sys.modules.pop(MODULE)
    (folder,) = (there / "runs").glob("2*")
    return folder


@pytest.fixture
def elsewhere(made_there: Path, place: Path) -> str:
    """The id of a run that was made with a module of its user, in another place, and copied here."""
    (place / f"{MODULE}.py").write_text(WORLD)
    (place / "runs").mkdir()
    shutil.copytree(made_there, place / "runs" / made_there.name)
    return made_there.name


@pytest.mark.parametrize("name", [name for name in OPENING if "planner" not in name])
def test_b1_an_adopted_run_needs_the_consent_for_every_command(rlctl: Rlctl, elsewhere: str, name: str) -> None:
    assert rlctl("adopt", f"runs/{elsewhere}").code == 0
    command = of(OPENING[name], elsewhere)
    for _ in range(2):
        refused = rlctl(*command)
        assert refused.code == 2
        assert f"--import {MODULE}" in refused.err
        assert MODULE not in sys.modules
    allowed = rlctl(*command, "--import", MODULE)
    assert (allowed.code, allowed.err) == (0, "")
    sys.modules.pop(MODULE)
    if "--detach" not in name:
        assert f"--import {MODULE}" in rlctl("eval", elsewhere).err


def test_b1_what_a_queued_run_may_import_is_remembered_with_it(rlctl: Rlctl, elsewhere: str, place: Path) -> None:
    rlctl("resume", elsewhere, "train.epochs=6", "--detach", "--import", MODULE)
    consent = Workspace(Path("runs")).records.consent(elsewhere)
    assert consent.modules == (MODULE,)
    assert str(place) in consent.path
    (child,) = rlctl("fork", elsewhere, "train.epochs=9", "--detach", "--import", MODULE, "--json").document
    assert Workspace(Path("runs")).records.consent(child["id"]).modules == (MODULE,)


def test_b1_a_run_that_was_launched_here_needs_no_option(rlctl: Rlctl, place: Path) -> None:
    (place / f"{MODULE}.py").write_text(WORLD)
    assert rlctl("launch", "--import", MODULE, "-f", "tiny.yaml", "env.id=Allowed-v0", "-q").code == 0
    sys.modules.pop(MODULE)
    assert rlctl("eval", "last", "--episodes", 1).code == 0
    sys.modules.pop(MODULE)
    config = next(Path("runs").glob("2*/config.yaml"))
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "imports": [MODULE, "one_more"]}))
    assert "the folder wants to import one_more, and" in rlctl("eval", "last").err


def test_b1_python_asks_for_the_import_too(elsewhere: str) -> None:
    run = orchestrator.get(elsewhere)
    for ask in (run.agent, run.resume, run.evaluate, lambda: run.config, lambda: load_agent(f"runs/{elsewhere}")):
        with pytest.raises(UserError, match=rf"wants to import {MODULE}, .*import it first"):
            ask()
    sys.path.append(".")
    __import__(MODULE)
    assert run.config.imports == (MODULE,)
    assert load_agent(f"runs/{elsewhere}").act([0.0] * 4) in (0, 1)


def test_b1_a_fork_in_python_imports_what_it_is_given(
    elsewhere: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", lambda workspace: None)
    with pytest.raises(UserError, match=f"wants to import {MODULE}"):
        orchestrator.fork(elsewhere, "train.epochs=6")
    child = orchestrator.fork(elsewhere, "train.epochs=6", imports=[f"{MODULE}.py"])
    consent = Workspace(Path("runs")).records.consent(child.id)
    assert consent.modules == (str(place / f"{MODULE}.py"),)


def test_b1_a_store_of_before_knows_what_its_own_runs_were_launched_with(
    rlctl: Rlctl, elsewhere: str, place: Path
) -> None:
    launched = rlctl("launch", "--import", MODULE, "-f", "tiny.yaml", "env.id=Allowed-v0", "-q").out.strip()
    assert rlctl("adopt", f"runs/{elsewhere}").code == 0
    connection = sqlite3.connect(place / "runs" / ".rlstudio" / "store.db")
    newer = ("imports", "import_path", "tags", "note", "train_return")
    for table, column in [*(("run", name) for name in newer), *((table, "pid_namespace") for table in OWNED_TABLES)]:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    connection.execute("UPDATE schema_version SET number = 2")
    connection.commit()
    connection.close()
    sys.modules.pop(MODULE)
    assert f"--import {MODULE}" in rlctl("eval", elsewhere).err
    assert rlctl("eval", launched, "--episodes", 1).code == 0
    records = Workspace(Path("runs")).store
    assert json.dumps([list(records.consent(run).modules) for run in (launched, elsewhere)]) == f'[["{MODULE}"], []]'


@pytest.mark.real_process
def test_a_folder_never_names_the_command_that_is_told_of_its_end(rlctl: Rlctl, tmp_path: Path) -> None:
    """The store remembers it for a run that was launched here with it; a copy of the folder tells nobody."""
    told = tmp_path / "told"
    launched = rlctl("launch", "-f", "tiny.yaml", "--notify", f"tee -a '{told}'", "--json")
    run_id = launched.document["id"]
    assert [json.loads(line)["event"] for line in told.read_text().replace("}{", "}\n{").splitlines()] == ["completed"]
    folder = Path(launched.document["path"])
    assert not any(str(told) in file.read_text(errors="replace") for file in folder.iterdir() if file.suffix == ".yaml")
    told.unlink()
    assert rlctl("resume", run_id, "train.epochs=4", "-q").code == 0
    assert json.loads(told.read_text())["run"] == run_id
    told.unlink()
    shutil.copytree(folder, tmp_path / "elsewhere" / run_id)
    adopted = ("--runs-dir", str(tmp_path / "elsewhere"))
    assert rlctl("resume", run_id, "train.epochs=5", "-q", *adopted).code == 0
    assert not told.exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [("", "is empty"), ("tee 'a", "close the quotes"), ("no-such-program-here x", "there is no such program")],
)
def test_a_command_that_cannot_be_told_is_refused_at_once(command: str, reason: str, rlctl: Rlctl) -> None:
    refused = rlctl("launch", "-f", "tiny.yaml", "--notify", command)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert reason in refused.err


SINKS = "tracking: {sinks: [csv, {kind: mlflow, uri: 'sqlite:///PLACE'}]}"
"""A place of somebody else: an address, or a file anywhere on this machine."""


def test_a_folder_never_names_where_its_metrics_go(rlctl: Rlctl, place: Path, trained: Path) -> None:
    (run_id,) = (folder.name for folder in trained.iterdir() if folder.name.startswith("2"))
    folder = hostile(trained, place, run_id, "none")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    tracking = yaml.safe_load(SINKS.replace("PLACE", str(place / "outside.db")))
    elsewhere = {**config["resources"], "backend": "ray", "address": "203.0.113.7:6379"}
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, **tracking, "resources": elsewhere, "imports": []}))
    for command in (("fork", run_id, "train.epochs=6"), ("resume", run_id, "train.epochs=6")):
        done = rlctl(*command, "-q")
        assert (done.code, done.err.count("\n")) == (0, 1), done.err
        assert f"note: run {run_id}: was not launched here, so nothing is sent to mlflow" in done.err
    assert not (place / "outside.db").exists()
    assert (folder / "artifacts" / "metrics.csv").exists()
    workspace = Workspace(Path("runs"))
    known = KnownResources(workspace.store)
    assert {known.of(run).address for run in workspace.store.runs()} == {"auto"}
