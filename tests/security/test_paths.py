"""No text leads out of the runs folder and nothing in it is followed out: not a link, not a pipe, not a second name.

Every text of `path_vectors` goes through every field that reaches the file system, or could; every trap takes the place
of everything that a command opens. A refusal is one printable line, and what lies outside is the same, byte for byte.
Each field gets the sharpest texts and its share of the others; the slow suite has the whole product.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlstudio.cli import app
from rlstudio.cli.app import main
from rlstudio.control.queue import service
from rlstudio.control.queue.launchers import SubprocessLauncher
from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.store.resources import Slots
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import StorageError, UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.manifest import manifest_bytes
from rlstudio.experiment.config.experiment import NAME
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.load import load_agent
from rlstudio.storage.verified import MANIFEST
from support.cli_scenario import all_commands
from support.deadlines import SLOWNESS
from support.experiments import tiny_data
from support.path_vectors import TEXTS, TRAPS, texts

pytestmark = pytest.mark.timeout(200 * SLOWNESS)  # of each test: a pipe that blocks is found here

CONFIG = tiny_data(
    train={"epochs": 1, "steps_per_epoch": 16, "batch_size": 16},
    eval={"every_epochs": 1, "episodes": 1, "final_episodes": 1},
)
VICTIM = "20260101-000000000-victim-0001"
SHARES = 48
SHARPEST = ("parent", "absolute victim", "NUL", "newline")
SHARP = ("the victim", "absolute canary", "through the run", "long", "long number", "empty", "options", "window title")
SHARP += ("superscript", "store")
INTERNAL = ("internal error", "Traceback")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def problem(self) -> str | None:
        """What is wrong with it as an answer: an error is one line, and no line steers the terminal."""
        lines = self.out.splitlines() + self.err.splitlines()
        if any(word in self.err for word in INTERNAL):
            return f"{self.code}: {self.err[:400]}"
        if not all(line.isprintable() for line in lines):
            return f"not printable: {self.err[:200]!r}"
        if self.code > 1 and not (self.err.startswith("rlctl: ") and self.err.count("\n") == 1):
            return f"{self.code}, not one line: {self.err[:400]!r}"
        return None


class Place:
    """A working directory with runs in it, and what no command may touch around them."""

    def __init__(self, root: Path, run_id: str, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.root, self.run_id, self._capsys = root, run_id, capsys
        self.runs, self.outside, self.here = root / "runs", root / "outside", root / "here"
        self.run = self.runs / run_id
        self.store = self.runs / ".rlstudio" / "store.db"
        self.texts = texts(run_id, self.outside, VICTIM)

    def some(self, turn: int) -> dict[str, str]:
        """The sharpest, one of 3 of the sharp and one of 48 of the others, from another one on at each turn; all of
        them for -1."""
        if turn < 0:
            return self.texts
        rest = [name for name in self.texts if name not in SHARPEST + SHARP]
        return {name: self.texts[name] for name in (*SHARPEST, *SHARP[turn % 3 :: 3], *rest[turn % SHARES :: SHARES])}

    def rlctl(self, *args: str) -> Result:
        assert self._capsys is not None
        self._capsys.readouterr()
        code = main([*args])
        return Result(code, *self._capsys.readouterr())

    def around(self) -> dict[str, object]:
        return fingerprint(self.root, without=("runs",))

    def rows(self) -> dict[str, int]:
        tables = ("run", "event", "checkpoint", "idempotency_key", "worker", "schema_version")
        return {table: self.sql(f"SELECT count(*) FROM {table}")[0][0] for table in tables}

    def sql(self, statement: str, *values: object) -> list[Any]:
        with sqlite3.connect(self.store) as connection:
            return connection.execute(statement, values).fetchall()

    def config(self, **changes: Any) -> str:
        (self.root / "experiment.json").write_text(json.dumps({**CONFIG, **changes}))
        return "../experiment.json"


def fingerprint(folder: Path, without: tuple[str, ...] = ()) -> dict[str, object]:
    """Everything below a folder: kind, mode, content, and for folders when something last came or went."""
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        if path.name in without:
            continue
        status = path.lstat()
        content: object = status.st_mtime_ns
        if stat.S_ISREG(status.st_mode):
            content = sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        found[str(path)] = (oct(status.st_mode), content)
        if stat.S_ISDIR(status.st_mode):
            found |= fingerprint(path)
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Made once, copied for every test."""
    root = tmp_path_factory.mktemp("paths")
    for name in ("here", "outside", "runsevil"):
        (root / name).mkdir()
    (root / "experiment.json").write_text(json.dumps(CONFIG))
    assert main(["launch", "-f", str(root / "experiment.json"), "--runs-dir", str(root / "runs"), "--quiet"]) == 0
    (run,) = (path for path in (root / "runs").iterdir() if path.name != ".rlstudio")
    (root / "outside" / "canary").write_text("canary: a: b\n")
    status = json.loads((run / "status.json").read_text())
    for victim in (
        root / "outside" / VICTIM,
        root / "runsevil" / run.name,
    ):  # whole runs that would be read, or removed
        shutil.copytree(run, victim)
        (victim / "status.json").write_text(json.dumps({**status, "id": victim.name, "name": "victim"}))
    (root / "runs" / f"{run.name}evil").symlink_to(root / "outside" / VICTIM)
    return Place(root, run.name)


@pytest.fixture
def place(
    original: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    root = tmp_path / "place"
    shutil.copytree(original.root, root, symlinks=True)
    made = Place(root, original.run_id, capsys)
    sibling = made.runs / f"{made.run_id}evil"
    sibling.unlink()
    sibling.symlink_to(made.outside / VICTIM)
    monkeypatch.chdir(made.here)
    monkeypatch.setenv("RLSTUDIO_RUNS_DIR", "../runs")
    monkeypatch.setattr(service, "ensure_worker", lambda workspace: None)
    monkeypatch.setattr(app, "get_command", lambda _: all_commands())
    monkeypatch.syspath_prepend(str(root))  # undoes what --import adds
    yield made
    assert list(made.here.iterdir()) == []  # where `$(touch x)` would have left its x


# -- texts x fields ---------------------------------------------------------------------------------------------------


def turns(fields: Iterable[str]) -> pytest.MarkDecorator:
    """Each field with its share of the texts, and in the slow suite with all of them."""
    quick = [pytest.param(field, turn, id=field) for turn, field in enumerate(fields)]
    whole = [pytest.param(field, -1, id=f"{field}, whole", marks=pytest.mark.slow) for field in fields]
    return pytest.mark.parametrize(("field", "turn"), [*quick, *whole])


RUN_FIELDS: dict[str, tuple[str, ...]] = {
    "show": ("show", "{}"),
    "show --json": ("show", "{}", "--json"),
    "show --lineage": ("show", "{}", "--lineage"),
    "logs": ("logs", "{}"),
    "logs --follow": ("logs", "-f", "{}"),
    "stop": ("stop", "{}"),
    "cancel": ("cancel", "{}"),
    "resume": ("resume", "{}", "train.epochs=3"),
    "resume --detach": ("resume", "{}", "--detach"),
    "fork": ("fork", "{}", "train.epochs=3"),
    "fork --detach": ("fork", "{}", "--detach"),
    "eval": ("eval", "{}"),
    "eval --dynamics": ("eval", "last", "--planner=cem", "planner.horizon=2", "--episodes=1", "--dynamics={}"),
    "record": ("record", "{}", "--episodes=1", "--dataset=pole/new-v0"),
    "record --dataset": ("record", "last", "--episodes=1", "--dataset={}"),
    "play": ("play", "{}", "--video", "film.mp4"),
    "plot": ("plot", "{}"),
    "metrics": ("metrics", "{}"),
    "metrics --out": ("metrics", "last", "--out={}"),
    "plot -o": ("plot", "last", "{}", "-o", "picture.png"),
    "diff, left": ("diff", "{}", "last"),
    "diff, right": ("diff", "last", "{}"),
    "rm": ("rm", "--yes", "{}"),
    "rm, second": ("rm", "--yes", "last", "{}"),
    "adopt": ("adopt", "{}"),
    "eval --checkpoint": ("eval", "last", "--checkpoint={}"),
    "play --checkpoint": ("play", "last", "--video", "film.mp4", "--checkpoint={}"),
    "fork --at": ("fork", "last", "train.epochs=3", "--at={}"),
    "plot --metric": ("plot", "last", "--metric={}"),
    "launch --file": ("launch", "--file={}", "--dry-run"),
    "run FILE": ("run", "--dry-run", "{}"),
    "launch --algo": ("launch", "--algo={}", "--env", "CartPole-v1", "--dry-run"),
    "launch --env": ("launch", "--algo", "ppo", "--env={}", "--dry-run"),
    "launch --import": ("launch", "-f", "../experiment.json", "--import={}", "--dry-run"),
    "envs --import": ("envs", "--import={}"),
    "check": ("check", "{}"),
    "schema --algo": ("schema", "--algo={}"),
    "worker --slots": ("worker", "--until-idle", "--slots={}"),
    "gc --states": ("gc", "--yes", "--states={}"),
    "eval, version": ("eval", "pole:{}"),
    "play, version": ("play", "pole:{}", "--video", "film.mp4"),
    "export, version": ("export", "pole:{}", "-o", "out"),
    "serve-policy, version": ("serve-policy", "pole:{}"),
    "promote": ("promote", "{}", "--model", "pole"),
    "promote, version": ("promote", "pole:{}"),
    "promote --model": ("promote", "nobody", "--model={}"),
    "promote --checkpoint": ("promote", "last", "--model", "pole", "--checkpoint={}"),
    "rollback": ("rollback", "{}"),
    "models": ("models", "{}"),
    "play --video": ("play", "last", "--video={}"),
    "plot --out": ("plot", "last", "--out={}"),
}
MEANT = {
    # What is right in a field, however odd it looks elsewhere.
    "adopt": {"absolute victim", "the victim", "down and up", "through the run", "sibling", "sibling folder"},
    "worker --slots": {"empty"},
    # Nothing comes after it: the command is the one without it.
    "resume": {"end of options"},
    "rm, second": {"end of options"},
    "models": {"end of options"},
}
MEANT["adopt"] |= {"trailing slash", "the run itself"}  # in the store already: a conflict, told in one line
OPTIONS = {"options", "end of options", "an option"}


@turns(RUN_FIELDS)
def test_no_text_leads_out(field: str, turn: int, place: Place) -> None:
    around, runs, rows = place.around(), fingerprint(place.runs), place.rows()
    found = {}
    for name, text in place.some(turn).items():
        if name in MEANT.get(field, ()):
            continue
        result = place.rlctl(*(part.replace("{}", text) for part in RUN_FIELDS[field]))
        if (result.code, result.out) != (2, "") or result.problem():
            found[name] = result.problem() or result
    assert found == {}
    assert place.around() == around
    assert fingerprint(place.runs) == runs
    assert place.rows() == rows


CONFIG_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "name": lambda text: {"name": text},
    "env.id": lambda text: {"env": {"id": text}},
    "env.wrappers": lambda text: {"env": {"id": "CartPole-v1", "wrappers": [text]}},
    "env.vectorization": lambda text: {"env": {"id": "CartPole-v1", "vectorization": text}},
    "policy.algo": lambda text: {"policy": {"algo": text}},
    "tracking.sinks": lambda text: {"tracking": {"sinks": [text]}},
    "runtime.device": lambda text: {"runtime": {"device": text}},
    "imports": lambda text: {"imports": [text]},
    "a section": lambda text: {text: {}},
}


def allowed(field: str, text: str) -> bool:
    return field in ("name", "--name", "name=") and NAME.fullmatch(text) is not None


@turns(CONFIG_FIELDS)
def test_no_text_in_a_file_leads_out(field: str, turn: int, place: Place) -> None:
    runs, found = fingerprint(place.runs), {}
    for name, text in place.some(turn).items():
        file = place.config(**CONFIG_FIELDS[field](text))
        around = place.around()
        result = place.rlctl("launch", "-f", file, "--dry-run")
        if result.code != (0 if allowed(field, text) else 2) or result.problem() or place.around() != around:
            found[name] = result.problem() or result
    assert found == {}
    assert fingerprint(place.runs) == runs


@turns(["--name", "name=", "env.id=", "tracking.sinks=", "imports=", "runtime.device="])
def test_no_text_on_the_command_line_leads_out(field: str, turn: int, place: Place) -> None:
    around, runs, found = place.around(), fingerprint(place.runs), {}
    for name, text in place.some(turn).items():
        given = f"--name={text}" if field == "--name" else f"{field}{text}"
        result = place.rlctl("launch", "-f", "../experiment.json", "--dry-run", given)
        # Nothing, `~` and `"a # comment` are null in YAML: for these the default, or nothing, is what was asked for.
        meant = text.strip(" ") if field == "name=" else text  # what YAML reads
        if result.code == 0 and not (allowed(field, meant) or text in ("", "~")):
            found[name] = result
        if result.code not in (0, 2) or result.problem():
            found[name] = result.problem() or result
    assert found == {}
    assert place.around() == around
    assert fingerprint(place.runs) == runs


@turns(["--key", "RLSTUDIO_OWNER"])
def test_what_is_stored_is_only_stored(field: str, turn: int, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    around, rows, found = place.around(), place.rows(), {}
    ids = set()  # two texts may be the same key: one run
    tried = place.some(turn)
    for name, text in tried.items():
        if field == "RLSTUDIO_OWNER" and ("\0" in text):
            continue  # no environment can hold it
        command = ["launch", "-f", "../experiment.json", "--detach", "--quiet"]
        if field == "--key":
            command.append(f"--key={text}")
        else:
            monkeypatch.setenv("RLSTUDIO_OWNER", text)
        result = place.rlctl(*command)
        if result.code == 0:
            ids.add(result.out)
        if result.problem() or result.code not in (0, 2):
            found[name] = result.problem() or result
    for command in ("queue", "ls"):
        assert place.rlctl(command).problem() is None
    assert found == {}
    accepted = len(ids)
    assert accepted > len(tried) * 3 // 4
    assert place.rows() == {
        **rows,
        "run": rows["run"] + accepted,
        "event": rows["event"] + accepted,
        "idempotency_key": rows["idempotency_key"] + (accepted if field == "--key" else 0),
    }
    assert place.around() == around
    assert {path.name for path in place.runs.iterdir()} == {".rlstudio", place.run_id, f"{place.run_id}evil"}


@turns(["--runs-dir"])
def test_looking_into_any_folder_leaves_nothing_there(field: str, turn: int, place: Place) -> None:
    around, found = place.around(), {}
    for name, text in place.some(turn).items():
        for command in (("ls", "--json"), ("show", "nobody"), ("queue",), ("gc", "--yes")):
            if name in ("parent", "parent slash", "here", "empty"):
                continue  # folders of ours, where a store may be made
            if Path(text.replace("\0", "")).is_dir() if len(text) < 4000 else False:
                continue
            result = place.rlctl(*command, f"{field}={text}")
            if result.problem() or result.code not in ((2,) if command[0] == "show" else (0, 2)):
                found[name, command] = result.problem() or result
    assert found == {}
    assert place.around() == around


def test_a_store_lies_in_the_folder_that_was_named(place: Place) -> None:
    """Also where the name would mean something else in a URL."""
    names = [
        text for text in place.texts.values() if "/" not in text and text not in ("", ".", "..") and text.isprintable()
    ]
    names = [text for text in names if len(text) < 200]
    assert len(names) > 40
    for name in names:
        root = place.root / "made"
        root.mkdir()
        Workspace(root / name).store.count()
        assert [str(path.relative_to(root)) for path in sorted(root.rglob("*"))] == [
            name,
            f"{name}/.rlstudio",
            f"{name}/.rlstudio/store.db",
        ]
        shutil.rmtree(root)


# -- rows, records and files that were tampered with ------------------------------------------------------------------

BY_ID = {
    "show": ("show", "{}"),
    "show --lineage": ("show", "{}", "--lineage"),
    "logs": ("logs", "{}"),
    "plot": ("plot", "{}"),
    "diff": ("diff", "{}", "last"),
    "eval": ("eval", "{}"),
    "resume": ("resume", "{}", "train.epochs=3"),
    "resume --detach": ("resume", "{}", "train.epochs=3", "--detach"),
    "fork": ("fork", "{}", "train.epochs=3", "--detach"),
    "stop": ("stop", "{}"),
    "cancel": ("cancel", "{}"),
    "rm": ("rm", "--yes", "{}"),
}


def tampered(place: Place, turn: int = -1, state: RunState = RunState.INTERRUPTED, **columns: object) -> list[str]:
    """Rows beside the real one, like it but for their ids."""
    names = [row[1] for row in place.sql("PRAGMA table_info(run)") if row[1] != "seq"]
    (row,) = place.sql(f"SELECT {', '.join(names)} FROM run")
    ids = [text for text in place.some(turn).values() if "\udcff" not in text and "\0" not in text]  # nor can the store
    common = dict(zip(names, row, strict=True)) | {"state": str(state), "name": "other", **columns}
    with sqlite3.connect(place.store) as connection:
        marks = ", ".join("?" * len(names))
        rows = [tuple((common | {"id": run_id}).values()) for run_id in ids]
        connection.executemany(f"INSERT INTO run ({', '.join(names)}) VALUES ({marks})", rows)
    return ids


@turns(BY_ID)
def test_an_id_in_a_row_is_not_a_path(field: str, turn: int, place: Place) -> None:
    ids, around, run, command = tampered(place, turn), place.around(), fingerprint(place.run), field
    found = {}
    for run_id in ids:
        result = place.rlctl(*(part.replace("{}", run_id) for part in BY_ID[command]))
        # The row may be shown, cancelled and forgotten; it is never a way to a folder.
        kind = {0, 2} if command in ("show --lineage", "cancel", "rm") else {2}
        kind |= {3} if run_id == place.texts["sibling"] else set()  # an id, with a link where its folder should be
        if result.problem() or result.code not in kind:
            found[run_id] = result.problem() or result
    assert found == {}
    assert place.around() == around
    assert fingerprint(place.run) == run
    assert {path.name for path in place.runs.iterdir()} == {".rlstudio", place.run_id, f"{place.run_id}evil"}
    for look in ("ls", "queue", "gc"):
        result = place.rlctl(look)
        assert (result.code, result.problem()) == (0, None), result


def test_old_rows_with_such_ids_are_collected_without_a_folder(place: Place) -> None:
    (place.runs / place.texts["sibling"]).unlink()
    ids, around = tampered(place, state=RunState.FAILED, created_at="2020-01-01T00:00:00+00:00"), place.around()
    result = place.rlctl("gc", "--yes", "--days", "1")
    assert (result.code, result.problem()) == (0, None)
    left = place.sql("SELECT count(*) FROM run")[0][0]
    assert left < len(ids) / 2
    assert place.around() == around
    assert place.run.is_dir()


def test_no_process_is_started_for_such_a_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, around = tampered(place, state=RunState.QUEUED), place.around()
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process was started"))
    workspace = Workspace(place.runs)
    observed = Scheduler(workspace.store, Slots(10_000, 0, 10**9), SubprocessLauncher(workspace)).tick()
    assert observed.started == []
    refused = [run for run in workspace.store.runs(states={RunState.INTERRUPTED}) if "is not an id" in run.message]
    assert len(refused) > len(ids) - 10
    assert place.around() == around
    assert {path.name for path in place.runs.iterdir()} == {".rlstudio", place.run_id, f"{place.run_id}evil"}


def test_the_dead_owner_of_such_a_row_is_not_looked_for_elsewhere(place: Place) -> None:
    """The reaper reads what a run wrote last, from its folder."""
    tampered(place, state=RunState.RUNNING, pid=5_000_000, env_steps=0, host=os.uname().nodename)
    around = place.around()
    result = place.rlctl("ls", "--json")
    assert (result.code, result.problem()) == (0, None)
    victims = [run for run in json.loads(result.out) if VICTIM in run["id"]]
    assert len(victims) > 3
    assert {run["env_steps"] for run in victims} == {0}  # the victim itself has 16
    assert place.around() == around


@turns(["parent_id", "sweep", "owner", "name", "host", "message", "config_hash"])
def test_what_a_row_refers_to_is_not_a_path(field: str, turn: int, place: Place) -> None:
    around, run, found = place.around(), fingerprint(place.run), {}
    for name, text in place.some(turn).items():
        if name == "lone surrogate":
            continue
        place.sql(f"UPDATE run SET {field} = ?, parent_step = 1", text)
        for command in (("ls",), ("show", place.run_id, "--lineage")):
            result = place.rlctl(*command)
            if result.problem() or result.code != 0:
                found[name, command] = result.problem() or result
    assert found == {}
    assert place.around() == around
    assert fingerprint(place.run) == run


@turns(["in the store", "a stranger"])
def test_an_id_in_a_status_is_not_a_path(field: str, turn: int, place: Place) -> None:
    known = field == "in the store"
    if not known:
        place.sql("DELETE FROM run")
    status = json.loads((place.run / "status.json").read_text())
    around, found = place.around(), {}
    for name, text in place.some(turn).items():
        line = json.dumps({**status, "id": text}) + "\n"
        (place.run / "status.json").write_text(line)
        (place.run / "events.jsonl").write_text(json.dumps({"kind": "created", "ts": 1.0}) + line)
        for command in (
            ("ls",),
            ("show", place.run_id),
            ("logs", place.run_id),
            ("plot", place.run_id),
            ("show", text),
        ):
            result = place.rlctl(*command)
            if result.problem() or result.code not in (0, 2):
                found[name, command] = result.problem() or result
        result = place.rlctl("rm", "--yes", place.run_id if not known else text)
        if result.problem() or result.code != 2:
            found[name, "rm"] = result.problem() or result
    assert found == {}
    assert place.around() == around
    assert place.run.is_dir()


@turns(["run_id", "origin", "segment name", "segment sha256", "a file", "metrics"])
def test_an_id_in_a_manifest_is_not_a_path(field: str, turn: int, place: Place) -> None:
    """A forger also writes the hash."""
    (step,) = (place.run / "checkpoints").iterdir()
    fields = json.loads((step / MANIFEST).read_text())
    del fields["sha256"]
    around, found = place.around(), {}
    for name, text in place.some(turn).items():
        entry = {"size": 1, "sha256": "0" * 64}
        forged = {
            "run_id": {"run_id": text},
            "origin": {
                "origin": {"run_id": text, "step": 1, "manifest_sha256": "0" * 64, "state_hash": "0" * 64},
            },
            "segment name": {"segments": [{"name": text, **entry}]},
            "segment sha256": {"segments": [{"name": "a", "size": 1, "sha256": text}]},
            "a file": {"files": {**fields["files"], text: entry}},
            "metrics": {"meta": {**fields["meta"], "metrics": {text: 1}}},
        }[field]
        try:
            (step / MANIFEST).write_bytes(manifest_bytes({**fields, **forged}))
        except UnicodeEncodeError:
            continue
        for command in (("show", "last"), ("eval", "last", "--episodes", "1")) if name in SOME else (("show", "last"),):
            result = place.rlctl(*command)
            if result.problem() or result.code not in (0, 2, 4):
                found[name, command] = result.problem() or result
    assert found == {}
    assert place.around() == around


SOME = ("parent", "the canary", "the victim", "absolute canary", "NUL", "long", "empty", "window title", "newline")


@pytest.mark.parametrize("key", ["imports", "name", "env.id"])
def test_a_stored_config_is_read_by_the_same_rules(key: str, place: Place) -> None:
    stored = json.loads(json.dumps(CONFIG))
    around, found = place.around(), {}
    for name in SOME:
        text = place.texts[name]
        changed = {**stored, **CONFIG_FIELDS[key](text)}
        (place.run / "config.yaml").write_text(json.dumps(changed))
        commands = ("eval", "resume") if key == "name" else ("eval", "resume", "fork")  # a fork has a name of its own
        for command in commands:
            result = place.rlctl(command, place.run_id, *(() if command == "eval" else ("train.epochs=3",)))
            if result.problem() or result.code != 2:
                found[name, command[0]] = result.problem() or result
    assert found == {}
    assert place.around() == around


# -- traps x places ---------------------------------------------------------------------------------------------------

STEP = "checkpoints/step-000000000016"
READING: dict[str, tuple[str, ...]] = {
    "ls": ("ls",),
    "show": ("show", "{}"),
    "show --lineage": ("show", "{}", "--lineage"),
    "logs": ("logs", "{}"),
    "plot": ("plot", "{}"),
    "diff": ("diff", "{}", "{}"),
    "stop": ("stop", "{}"),
    "queue": ("queue",),
    "gc": ("gc",),
}
CHANGING: dict[str, tuple[str, ...]] = {
    "eval": ("eval", "{}", "--episodes", "1"),
    "fork": ("fork", "{}", "train.epochs=2", "--detach", "--quiet"),
    "resume": ("resume", "{}", "train.epochs=2", "--quiet"),
    "rm": ("rm", "{}", "--yes"),
}
EVERYTHING = {*READING, *CHANGING}
REFUSED = {
    # What a link in this place must keep from working, because it would have to be followed.
    "": {"show", "logs", "plot", "diff", "eval", "fork", "resume", "rm"},
    "config.yaml": {"diff", "eval", "fork", "resume"},
    "status.json": {"resume"},
    "metrics.jsonl": {"plot"},  # elsewhere a run without metrics
    "events.jsonl": {"logs", "resume"},
    "checkpoints": {"show", "eval", "fork", "resume"},
    STEP: {"eval", "fork", "resume"},
    f"{STEP}/MANIFEST.json": {"eval", "fork", "resume"},
    f"{STEP}/state.json": {"eval", "fork", "resume"},
    f"{STEP}/tensors.safetensors": {"eval", "fork", "resume"},
    "segments": {"resume"},
    "artifacts": set(),
    "stdout.log": set(),
    ".lock": {"resume", "rm"},
    "lease.json": {"resume", "rm"},
    "../.rlstudio": EVERYTHING,
    "../.rlstudio/store.db": EVERYTHING,
    "../.rlstudio/store.db-journal": EVERYTHING,
}
LINKS = ("link", "link_by_dots")
STANDING = ("link", "pipe", "hard_link")


def set_trap(place: Place, where: str, trap: str) -> None:
    """The original moves outside, where a followed link would find it, and the trap takes its place."""
    path = Path(os.path.normpath(place.run / where))
    moved = place.outside / "moved" / path.name
    moved.parent.mkdir()
    if path.exists():
        path.rename(moved)
    else:  # a journal, a worker's log
        moved.write_bytes(b"")
    TRAPS[trap](path, moved)


def meets(name: str, where: str, trap: str, turn: int) -> bool:
    """A link meets every command that it must keep from working, and its share of the others. A pipe and a second name,
    which are waited at and written through, meet those that open this place. Where all commands do (the store, which
    they all open in the same way), those two take turns with them, and so do the other traps everywhere."""
    number = [*READING, *CHANGING].index(name)
    if turn < 0 or (trap == "link" and name in REFUSED[where]):
        return True
    if trap in STANDING and REFUSED[where] != EVERYTHING and name in REFUSED[where] - {"plot"}:
        return True
    return number % 3 == turn % 3 if trap in STANDING else name == ("show", "logs", "diff")[turn % 3]


@turns(REFUSED)
def test_nothing_is_followed_out_of_a_run(field: str, turn: int, place: Place) -> None:
    where = field
    found: dict[Any, object] = {}
    others = [trap for trap in TRAPS if trap not in STANDING]
    for trap in TRAPS if turn < 0 else (*STANDING, *others[turn % 3 :: 3]):
        commands = {name: command for name, command in (READING | CHANGING).items() if meets(name, where, trap, turn)}
        copied = place.root.with_name(trap)
        shutil.copytree(place.root, copied, symlinks=True)
        here = Place(copied, place.run_id, place._capsys)
        set_trap(here, where, trap)
        around = here.around()
        for name, command in commands.items():
            result = here.rlctl(*(part.replace("{}", here.run_id) for part in command), f"--runs-dir={here.runs}")
            if result.problem() or result.code not in (0, 2, 3, 4):
                found[trap, name] = result.problem() or result
            if trap in LINKS and (result.code != 0) < (name in REFUSED[where]):
                found[trap, name] = f"worked: {result}"
            if here.around() != around:
                found[trap, name] = "changed what is outside"
                break
    assert found == {}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("where", ["../.rlstudio", "../.rlstudio/worker.log"])
def test_a_worker_logs_to_no_other_file(where: str, trap: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process was started"))
    set_trap(place, where, trap)
    around = place.around()
    with pytest.raises((StorageError, UserError)):
        service.ensure_worker(Workspace(place.runs))
    assert place.around() == around


@pytest.mark.parametrize("trap", ["link", "dangling", "pipe", "hard_link", "listener", "swapped"])
def test_a_run_prints_to_no_other_file(trap: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process was started"))
    set_trap(place, "stdout.log", trap)
    around, workspace = place.around(), Workspace(place.runs)
    with pytest.raises(StorageError):
        SubprocessLauncher(workspace).launch(workspace.store.get(place.run_id), [])
    assert place.around() == around


@pytest.mark.parametrize("trap", ["link", "dangling", "loop", "device", "pipe", "listener"])
@pytest.mark.parametrize("where", ["config.yaml", "artifacts/tensorboard", STEP])
@pytest.mark.parametrize("elsewhere", [True, False], ids=["copied", "in its place"])
def test_a_folder_with_a_trap_is_not_taken_in(elsewhere: bool, where: str, trap: str, place: Place) -> None:
    set_trap(place, where, trap)
    place.sql("DELETE FROM run")
    if elsewhere:
        (place.root / "theirs").mkdir()
        place.run.rename(place.root / "theirs" / place.run_id)
    around, rows = place.around(), place.rows()
    folder = place.root / ("theirs" if elsewhere else "runs") / place.run_id
    result = place.rlctl("adopt", str(folder))
    assert result.code in (2, 3)
    assert result.problem() is None
    assert place.around() == around
    assert place.rows() == rows
    left = {path.name for path in place.runs.iterdir()} - {place.run_id}
    assert left == {".rlstudio", f"{place.run_id}evil"}


def test_a_run_that_is_a_link_is_no_run(place: Place) -> None:
    """Neither to the store, nor to Python."""
    around, sibling = place.around(), place.runs / f"{place.run_id}evil"
    with pytest.raises(StorageError, match="links are never followed"):
        RunFolder(sibling).exists
    with pytest.raises(StorageError, match="never followed"):
        load_agent(sibling)
    assert sibling.name not in place.rlctl("ls").out
    assert place.around() == around


def test_the_runs_folder_itself_may_be_a_link(place: Place) -> None:
    """It lies where the user says."""
    (place.root / "linked").symlink_to(place.runs)
    for command in (("show", "last"), ("logs", "last"), ("resume", "last", "train.epochs=2"), ("rm", "last", "--yes")):
        result = place.rlctl(*command, "--runs-dir", "../linked")
        assert (result.code, result.err) == (0, "")
    assert not place.run.exists()


def test_the_state_folder_may_be_where_the_user_says(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.root / "state").mkdir()
    (place.root / "linked").symlink_to(place.root / "state")
    monkeypatch.setenv("RLSTUDIO_HOME", "../linked")
    assert place.rlctl("ls").code == 0
    assert list((place.root / "state").iterdir()) == []  # looking makes no store
    assert place.rlctl("queue", "--reap").code == 0
    assert [path.name for path in (place.root / "state").iterdir()] == ["store.db"]


# -- others on this machine -------------------------------------------------------------------------------------------


def test_everything_is_private_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[Path] = []
    started = SimpleNamespace(Popen=lambda *_, **__: None, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT)
    monkeypatch.setattr(service, "subprocess", started)
    before = os.umask(0)
    try:
        (tmp_path / "experiment.json").write_text(json.dumps({**CONFIG, "tracking": {"sinks": ["csv"]}}))
        runs = tmp_path / "new" / "deep" / "runs"
        for command in (
            ("launch", "-f", "experiment.json", "--quiet"),
            ("fork", "tiny", "train.epochs=2", "--quiet"),
            ("resume", "tiny", "train.epochs=3", "--quiet"),
            ("launch", "-f", "experiment.json", "--detach", "--key", "a"),
        ):
            assert main([*command, "--runs-dir", str(runs)]) == 0
        workspace = Workspace(runs)
        with workspace.store.database.write() as connection:
            connection.exec_driver_sql("UPDATE run SET message = 'x'")
            seen = list((runs / ".rlstudio").iterdir())
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in seen}
    finally:
        os.umask(before)
    assert len(modes) >= 3  # the store, its journal or log, the worker's log
    assert modes == dict.fromkeys(modes, 0o600)
    everything = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {"config.yaml", "metrics.jsonl", "worker.log", "lease.json", "metrics.csv", "stdout.log"} <= {
        path.name for path in everything
    }
    found = {str(path): oct(stat.S_IMODE(path.stat().st_mode)) for path in everything}
    assert found == {str(path): oct(0o700 if path.is_dir() else 0o600) for path in everything}


# -- the corpus itself ------------------------------------------------------------------------------------------------


def test_the_corpus_is_large_and_aims_at_what_is_there(place: Place) -> None:
    assert len(set(TEXTS.values())) >= 60
    assert len(set(place.texts.values())) == len(TEXTS)
    reached = [text for text in place.texts.values() if "\0" not in text and len(text) < 4000]
    outside = [
        text
        for text in reached
        if os.path.exists(place.runs / text) and not Path(place.runs / text).is_relative_to(place.run)
    ]
    assert len(outside) > 10  # joined carelessly, these lead to something


def test_the_fingerprint_sees(place: Place) -> None:
    seen = [place.around()]
    (place.outside / VICTIM / "status.json").chmod(0o644)
    seen.append(place.around())
    (place.outside / VICTIM / "new").write_text("")
    seen.append(place.around())
    (place.outside / "canary").write_text("other")
    seen.append(place.around())
    (place.outside / VICTIM / "new").unlink()
    seen.append(place.around())
    assert len({json.dumps(one) for one in seen}) == len(seen)


def test_a_problem_is_one(place: Place) -> None:
    good = Result(2, "", "rlctl: no\n")
    assert good.problem() is None
    for bad in ("rlctl: no\nrlctl: more\n", "Traceback\n", "rlctl: internal error\n", "rlctl: \x1b\n", ""):
        assert dataclasses.replace(good, err=bad).problem() is not None
