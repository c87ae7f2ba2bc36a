"""Looking never writes: no command that reads, and no Tab, changes a byte of the store or of a run folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from typer.main import get_command

from rlstudio.cli.app import COMMANDS, application, main
from rlstudio.cli.commands import sweep, token
from rlstudio.cli.commands.cluster import status
from rlstudio.control.workspace import Workspace
from support.cli_scenario import Rlctl
from support.golden_store import GOLDEN
from support.reading_world import ReadingWorld, fill, tree

ACTING = {
    "launch",
    "run",
    "resume",
    "fork",
    "sweep",
    "sweep stop",
    "sweep rm",
    "stop",
    "pause",
    "cancel",
    "worker",
    "promote",
    "rollback",
    "adopt",
    "rm",
    "tag",
    "note",
    "send",
    "serve",
    "token",
    "token add",
    "token revoke",
    "migrate",
}
"""Also `queue --reap`, `gc --yes` and `replay RUN quarantine`, `purge` or `release`; without these words the three only
look. So does `migrate --dry-run`, see tests/control/runs/test_upgrade.py."""

ELSEWHERE = {
    "play",
    "record",
    "serve-policy",
    "import",
    "backup",
    "init",
    "cluster",
    "cluster status",
    "rewind",
    "variance",
    "profile",
    "reproduce",
}
"""They write films, datasets, bundles, backups and configurations where they are told to, ask a cluster, or serve."""

READING = {
    "ls": ["", "--json", "--limit 1", "--limit 0", "tiny", "--state completed --tag none"],
    "show": [
        "RUN",
        "dead tiny",
        "--algo ppo",
        "--algo ppo --json",
        "RUN --json",
        "RUN --lineage",
        "RUN --lineage --json",
        "last",
        "nobody",
    ],
    "logs": ["RUN", "RUN --json"],
    "replay": ["RUN", "RUN --json"],
    "plot": ["tiny", "tiny --out OUT/curve.svg", "RUN"],
    "compare": ["tiny", "tiny RUN --json"],
    "report": ["tiny -o OUT/page.html", "RUN -o OUT/run.html"],
    "metrics": ["tiny --wide", "tiny --out OUT/metrics.csv", "RUN"],
    "diff": ["tiny tiny", "tiny RUN --json"],
    "tournament": ["tiny RUN"],
    "queue": ["", "--json"],
    "gc": ["", "--days 0 --states interrupted,completed,failed,cancelled --json"],
    "models": ["", "--json", "cartpole", "nothing"],
    "sweep show": ["found", "found --json", "nothing"],
    "sweep ls": ["", "--json"],
    "token ls": ["", "--json"],
    "sweep logs": ["found", "nothing"],
    "eval": ["tiny --episodes 1"],
    "export": ["tiny -o OUT/bundle --format bundle"],
    "algos": ["", "--json"],
    "envs": [""],
    "presets": ["", "cartpole", "--json"],
    "zoo": ["", "cartpole", "--json"],
    "schema": ["", "--algo ppo"],
    "check": ["CartPole-v1"],
    "doctor": ["", "--json", "-f tiny.yaml --no-trial"],
    "plugins": ["", "--json", "--check"],
}

Tab = Callable[[str], list[str]]
KINDS = ("living", "dead", "dead_cancelled", "elsewhere", "queued", "folder_only", "dead_folder_only")


@pytest.fixture(scope="module")
def filled(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ReadingWorld]:
    """A runs folder with a run of each kind."""
    runs = tmp_path_factory.mktemp("filled") / "runs"
    shutil.copytree(trained, runs)
    workspace = Workspace(runs)
    world = fill(workspace)
    workspace.store.database.close()
    return runs, world


@pytest.fixture
def world(place: Path, filled: tuple[Path, ReadingWorld]) -> ReadingWorld:
    runs, world = filled
    shutil.copytree(runs, place / "runs")
    (place / "out").mkdir()
    return world


def test_every_command_is_known_to_read_or_to_act() -> None:
    """A new command is written down here, and tried below if it reads."""
    program = application(COMMANDS)
    groups = {"sweep": sweep.app, "cluster": status.app, "token": token.app}
    assert [group.name for group in program.registered_groups] == [*groups]
    further = {
        f"{group} {name}"
        for group, app in groups.items()
        for name in get_command(app).commands  # type: ignore[attr-defined]
    }
    assert sorted([*COMMANDS, *further]) == sorted([*READING, *ACTING, *ELSEWHERE])


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_changes_nothing(command: str, rlctl: Rlctl, place: Path, world: ReadingWorld) -> None:
    before = tree(place / "runs")
    for given in READING[command]:
        for kind in KINDS if "RUN" in given else ("",):
            run = getattr(world, kind) if kind else ""
            line = [part.replace("RUN", run).replace("OUT", "out") for part in given.split()]
            done = rlctl(*command.split(), *line)
            assert "internal error" not in done.err, (line, done.err)
            assert tree(place / "runs") == before, (command, line)
            refused = given in ("nobody", "nothing") or command == "doctor"  # the world has a version without a bundle
            assert kind or done.code == 0 or refused, (line, done.err)


def completion(words: str) -> dict[str, str]:
    """The variables by which the shell asks what Tab offers after these words."""
    count = str(len(words.split(" ")) - 1)
    return {"_RLCTL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}


@pytest.fixture
def tab(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What Tab offers after these words. `test_cli_light.py` asks in processes of their own."""

    def offered(words: str) -> list[str]:
        capsys.readouterr()
        with monkeypatch.context() as shell, suppress(SystemExit):
            shell.setattr(sys, "argv", ["rlctl"])
            for name, value in completion(words).items():
                shell.setenv(name, value)
            main()
        return capsys.readouterr().out.split()

    return offered


def test_tab_changes_nothing(place: Path, world: ReadingWorld, tab: Tab) -> None:
    before = tree(place / "runs")
    assert {"last", "dead", world.dead[-4:], world.folder_only[-4:]} <= set(tab("rlctl show "))
    assert world.dead in tab(f"rlctl show {world.dead[:9]}")
    assert tab("rlctl sweep show ") == ["found"]
    for words in ("rlctl logs d", "rlctl rm ", "rlctl stop ", "rlctl resume dea", "rlctl diff last "):
        assert "dead" in tab(words)
    assert tree(place / "runs") == before


def test_a_run_whose_process_is_gone_is_told_as_what_will_be_recorded(rlctl: Rlctl, world: ReadingWorld) -> None:
    lines = {line.split()[0]: line for line in rlctl("ls").out.splitlines()}
    assert "INTERRUPTED*: orp" in lines[world.dead[-4:]]
    assert "INTERRUPTED*: orp" in lines[world.dead_folder_only[-4:]]
    assert "CANCELLED*: user" in lines[world.dead_cancelled[-4:]]
    assert "process is gone, which is not yet recorded; do that with: rlctl queue --reap" in lines["*"]
    for run_id in (world.living, world.elsewhere):  # of another host nothing can be said in one look
        assert " RUNNING " in lines[run_id[-4:]]
    documents = {entry["id"]: entry for entry in rlctl("ls", "--json").document}
    recorded = {run_id: (entry["state"], entry["recorded"]) for run_id, entry in documents.items()}
    assert recorded[world.dead] == ("INTERRUPTED", False)
    assert recorded[world.dead_cancelled] == ("CANCELLED", False)
    assert recorded[world.dead_folder_only] == ("INTERRUPTED", False)
    assert (recorded[world.living], recorded[world.folder_only]) == (("RUNNING", True), ("COMPLETED", True))
    shown = rlctl("show", world.dead)
    assert "INTERRUPTED: orphaned (not yet recorded)" in shown.out
    assert f"rlctl resume {world.dead}" in shown.out
    assert rlctl("show", world.dead, "--json").document["recorded"] is False
    assert "interrupted (not yet recorded)" in rlctl("show", world.dead, "--lineage").out
    (relative,) = rlctl("show", world.dead, "--lineage", "--json").document["relatives"]
    assert (relative["state"], relative["recorded"]) == ("INTERRUPTED", False)


def test_queue_lists_them_apart_and_reap_records_them(rlctl: Rlctl, place: Path, world: ReadingWorld) -> None:
    listed = rlctl("queue", "--json").document
    assert {entry["id"] for entry in listed["running"]} == {world.living, world.elsewhere}
    assert {entry["id"] for entry in listed["not_recorded"]} == {world.dead, world.dead_cancelled}
    assert listed["workers"] == []
    assert "rlctl queue --reap" in rlctl("queue").out
    done = rlctl("queue", "--reap")
    assert f"run {world.dead}: INTERRUPTED: orphaned; process" in done.out
    assert f"run {world.dead_cancelled}: CANCELLED: user" in done.out
    assert "not yet recorded" not in done.out
    workspace = Workspace(place / "runs")
    assert (workspace.records.get(world.dead).state, workspace.find(world.dead).recorded) == ("INTERRUPTED", True)
    assert workspace.records.get(world.living).state == workspace.records.get(world.elsewhere).state == "RUNNING"
    assert "nothing to record" in rlctl("queue", "--reap").out
    assert rlctl("queue", "--reap", "--json").document["reaped"] == []


@pytest.mark.parametrize("command", ["cancel RUN", "rm RUN --yes", "gc --yes", "stop RUN", "pause RUN", "resume RUN"])
def test_whoever_acts_records_it_first(command: str, rlctl: Rlctl, place: Path, world: ReadingWorld) -> None:
    rlctl(*command.replace("RUN", world.dead).split())
    workspace = Workspace(place / "runs")
    assert workspace.records.get(world.dead_cancelled).state == "CANCELLED"
    states = [event.state for event in workspace.records.events(world.dead)]
    assert "INTERRUPTED" in states or command.startswith("rm")


# -- an older store, and a folder that may not be written -------------------------------------------------------------


@pytest.fixture
def old(place: Path) -> Path:
    """A runs folder with a store of version 1."""
    folder = place / "runs" / ".rlstudio"
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN / "store-v1.db", folder / "store.db")
    return place / "runs"


def test_an_older_store_is_read_and_stays_as_it_is(old: Path, rlctl: Rlctl, tab: Tab) -> None:
    before = tree(old)
    documents = rlctl("ls", "--json").document
    assert {entry["name"] for entry in documents} >= {"whole ü", "is RUNNING", "is COMPLETED"}
    for line in ("ls", "show last", "show last --lineage", "queue", "models", "sweep ls", "gc --days 0"):
        assert rlctl(*line.split()).code == 0
    assert "last" in tab("rlctl show ")
    assert tree(old) == before
    assert rlctl("queue", "--reap").code == 0  # whoever acts brings it up to date, with a copy
    assert (old / ".rlstudio" / "store-version-1.db").is_file()
    assert rlctl("ls", "--json").document == documents


def test_folders_without_a_store_do_not_get_one(rlctl: Rlctl, place: Path, trained: Path, tab: Tab) -> None:
    shutil.copytree(trained, place / "runs", ignore=shutil.ignore_patterns(".rlstudio"))
    before = tree(place / "runs")
    (entry,) = rlctl("ls", "--json").document
    for line in ("show last", "logs last", "queue", "models", "sweep ls", "gc"):
        assert rlctl(*line.split()).code == 0
    assert entry["handle"] in tab("rlctl show ")
    assert tree(place / "runs") == before


ONE_AFTER_ANOTHER = f"""
import os, sys
from rlstudio.cli.app import main
for line in sys.argv[1:]:
    if code := main(line.split()):
        sys.exit(f"{{line}} ends with {{code}}")
sys.argv = ["rlctl"]
os.environ.update({completion("rlctl show ")})
main()
"""
"""Commands, and Tab at last: each as a process of its own would do nothing else."""


def test_a_folder_that_may_not_be_written_is_listed(place: Path, trained: Path) -> None:
    shutil.copytree(trained, place / "runs")
    paths = [place, *place.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    # To root, permissions are nothing: it gives that right away first.
    capabilities = "-dac_override,-dac_read_search"
    ordinary = ["setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"] if os.getuid() == 0 else []
    try:
        assert subprocess.run([*ordinary, "touch", place / "runs" / "new"], capture_output=True, check=False).returncode
        before = tree(place)
        lines = ("ls", "show last", "logs last", "queue", "models", "sweep ls")
        done = subprocess.run(
            [*ordinary, sys.executable, "-c", ONE_AFTER_ANOTHER, *lines], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "last" in done.stdout.splitlines()
        assert tree(place) == before
    finally:
        for path in paths:
            path.chmod(path.stat().st_mode | 0o200)
