"""Run folders: whole from the start, found by what people type, honest about dead processes."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from rlstudio.core.errors import RunBusy, StorageError, UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RUN_ID, RunFolder, list_runs
from rlstudio.experiment.folder.status import Status, parse_status
from rlstudio.storage import failpoint


def create(runs_dir, state=RunState.STARTING, run_id=None, **changes):
    values = {"name": "cartpole", "algo": "ppo", "env_id": "CartPole-v1", "config_yaml": "algo: ppo\n"}
    return RunFolder.create(runs_dir, NewRun(**{**values, **changes}), state=state, run_id=run_id)


def test_a_new_run_is_whole_and_private(tmp_path):
    run = create(tmp_path / "runs", seed=3, config_hash="abc", total_epochs=9)
    assert RUN_ID.fullmatch(run.id)
    assert sorted(os.listdir(run.path)) == [
        "artifacts",
        "checkpoints",
        "config.yaml",
        "events.jsonl",
        "segments",
        "status.json",
    ]
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert run.read_config() == "algo: ppo\n"
    status = run.read_status()
    assert (status.state, status.name, status.seed, status.pid) == (RunState.STARTING, "cartpole", 3, os.getpid())
    assert (status.config_hash, status.total_epochs) == ("abc", 9)
    assert os.listdir(tmp_path / "runs") == [run.id]


def test_what_a_run_began_with_can_be_read_back(tmp_path):
    new = NewRun("walk", "dqn", "CartPole-v1", "a: 1\n", config_hash="abc", seed=3, total_epochs=9)
    run = RunFolder.create(tmp_path, new)
    assert NewRun.from_status(run.read_status(), run.read_config()) == new


@pytest.mark.parametrize("env_id", ["ALE/Breakout-v5", "../../etc", "x" * 200, "", "ÄÖ", "a\nb"])
def test_ids_are_plain_whatever_the_env_is_called(tmp_path, env_id):
    run = create(tmp_path, env_id=env_id)
    assert RUN_ID.fullmatch(run.id)
    assert run.read_status().env_id == env_id


def test_ids_are_unique(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        ids = [run.id for run in pool.map(lambda _: create(tmp_path), range(60))]
    assert len(set(ids)) == 60
    assert len(list_runs(tmp_path)) == 60


def test_runs_of_one_millisecond_sort_in_the_order_they_were_made(tmp_path, monkeypatch):
    from rlstudio.experiment.folder import run_folder

    moments = iter(range(999))

    class Microseconds(run_folder.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, microsecond=next(moments), tzinfo=tz)

    monkeypatch.setattr(run_folder, "datetime", Microseconds)
    older = create(tmp_path, run_id="20260101-000000000-ppo-cartpole-v1-ffff")  # an id as it was made before
    made = [older, *(create(tmp_path) for _ in range(20))]
    assert [status.id for status in list_runs(tmp_path)] == [run.id for run in reversed(made)]


def test_a_taken_id_is_never_written_into(tmp_path, monkeypatch):
    from rlstudio.experiment.folder import run_folder

    suffixes = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(run_folder.secrets, "token_hex", lambda n: next(suffixes) if n == 2 else os.urandom(n).hex())

    class Frozen(run_folder.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(run_folder, "datetime", Frozen)
    first, second = create(tmp_path, name="first"), create(tmp_path, name="second")
    assert (first.id[-4:], second.id[-4:]) == ("aaaa", "bbbb")
    assert (first.read_status().name, second.read_status().name) == ("first", "second")
    assert [event["id"] for event in second.events()] == [second.id]


def test_a_folder_that_cannot_be_written_is_the_users_mistake(tmp_path):
    (tmp_path / "file").write_text("")
    for runs_dir in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"^runs folder .*choose another|real one") as caught:
            create(runs_dir)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("code", "error"), [("EACCES", UserError), ("EROFS", UserError), ("ENOSPC", StorageError)])
def test_refusals_while_creating(tmp_path, monkeypatch, code, error):
    import errno

    def refuse(*args, **kwargs):
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(error) as caught:
        create(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_abandoned_builds_are_removed_only_when_old(tmp_path):
    for name in (".tmp-old", ".tmp-new"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / ".tmp-old", (1, 1))
    run = create(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".tmp-new", run.id]


# -- status -----------------------------------------------------------------------------------------------------------


def test_all_states_round_trip(tmp_path):
    run = create(tmp_path)
    for state in RunState:
        status = replace(run.read_status(), state=state, eval_return=1.5, eval_interval=(1.0, 2.0), message="ü")
        run.write_status(status)
        assert replace(run.read_status(), updated_at="") == replace(status, updated_at="")
    names = "QUEUED STARTING RUNNING STOPPING INTERRUPTED COMPLETED FAILED CANCELLED"
    assert " ".join(RunState) == names


def test_only_a_change_of_state_is_synced(tmp_path):
    run = create(tmp_path)
    status = replace(run.read_status(), state=RunState.RUNNING)
    syncs = []
    failpoint.restart(lambda operation: syncs.append(operation.kind == "sync"))
    for epoch in range(3):
        run.write_status(replace(status, epoch=epoch))
        syncs.append(None)
    run.write_status(replace(status, state=RunState.COMPLETED))
    failpoint.restart()
    first, second, third, last = "".join("S" if s else "|" if s is None else "." for s in syncs).split("|")
    assert (first.count("S"), second.count("S"), third.count("S"), last.count("S")) == (2, 0, 0, 2)


def test_values_that_json_has_not_are_written_as_null(tmp_path):
    run = create(tmp_path)
    run.write_status(replace(run.read_status(), eval_return=float("nan")))
    json.loads((run.path / "status.json").read_text(), parse_constant=pytest.fail)
    assert run.read_status().eval_return is None


@pytest.mark.parametrize("state", [RunState.STARTING, RunState.RUNNING, RunState.STOPPING])
@pytest.mark.parametrize("fault", ["dead", "reused pid", "reboot", "zombie"])
def test_a_run_whose_process_is_gone_is_interrupted(tmp_path, state, fault):
    run = create(tmp_path)
    status = replace(run.read_status(), state=state)
    zombie = None
    if fault == "dead":
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        status = replace(status, pid=child.pid)
    elif fault == "reused pid":
        status = replace(status, pid_start=status.pid_start - 1)
    elif fault == "reboot":
        status = replace(status, boot_id="another")
    else:
        zombie = os.fork()
        if zombie == 0:
            os._exit(0)
        os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
        status = replace(status, pid=zombie)
    run.write_status(status)
    seen = run.read_status()
    if zombie:
        os.waitpid(zombie, 0)
    assert (seen.state, seen.reason) == (RunState.INTERRUPTED, "orphaned")
    assert f"rlctl resume {run.id}" in seen.message
    assert list_runs(tmp_path) == [seen]


def test_a_living_process_and_one_of_another_host_are_left_alone(tmp_path):
    run = create(tmp_path)
    assert run.read_status().state == RunState.STARTING
    run.write_status(replace(run.read_status(), host="elsewhere", pid=1, pid_start=0, state=RunState.RUNNING))
    assert run.read_status().state == RunState.RUNNING
    run.write_status(replace(run.read_status(), state=RunState.COMPLETED, boot_id="another"))
    assert run.read_status().state == RunState.COMPLETED


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"[]", b'{"id": 3}', b"\xff", b'{"state": "RUNNING"}'])
def test_a_lost_status_is_told_again_from_the_history(tmp_path, damage):
    run = create(tmp_path, name="mine", seed=5)
    (run.path / "status.json").write_bytes(damage)
    seen = run.read_status()
    assert (seen.id, seen.name, seen.seed, seen.algo) == (run.id, "mine", 5, "ppo")
    assert (seen.state, seen.reason) == (RunState.INTERRUPTED, "orphaned")


def test_a_status_of_a_newer_version_still_reads():
    data = json.dumps({"id": "a", "name": "b", "state": "RUNNING", "invented_later": 1, "eval_return": 1})
    assert parse_status(data.encode()) == Status("a", "b", RunState.RUNNING, eval_return=1)
    assert parse_status(data.replace('"b"', "3").encode()) is None


@pytest.mark.parametrize(
    "forged",
    [{"env_steps": 2**63}, {"seed": -(10**30)}, {"eval_return": 10**400}, {"eval_interval": [10**400, 1]}],
)
def test_a_status_with_numbers_that_nothing_can_keep_is_damaged(tmp_path, forged):
    """One from elsewhere: it must not hide the other runs of its folder."""
    mine, theirs = create(tmp_path), create(tmp_path, name="theirs")
    status = theirs.read_status().to_json()
    (theirs.path / "status.json").write_text(json.dumps({**status, **forged}))
    assert parse_status(json.dumps({**status, **forged}).encode()) is None
    assert [seen.id for seen in list_runs(tmp_path)] == [theirs.id, mine.id]
    assert theirs.read_status().message.startswith("status.json was lost")
    for name in ("status.json", "events.jsonl"):
        (theirs.path / name).write_text(json.dumps({"ts": 1, "kind": "created", **status, **forged}) + "\n")
    assert [seen.id for seen in list_runs(tmp_path)] == [mine.id]


# -- finding ----------------------------------------------------------------------------------------------------------


def test_list_is_newest_first_and_passes_over_what_is_no_run(tmp_path):
    runs = [create(tmp_path, name=f"n{n}") for n in range(3)]
    (tmp_path / "20990101-foreign").mkdir()
    (tmp_path / "20990102-status-is-folder").mkdir()
    (tmp_path / "20990102-status-is-folder" / "status.json").mkdir()
    (tmp_path / "20990103-a-file").write_text("")
    (tmp_path / "20990104-a-link").symlink_to(runs[0].path)
    (tmp_path / "Not An Id").mkdir()
    (tmp_path / ".tmp-x").mkdir()
    os.mkfifo(tmp_path / "20990105-a-pipe")
    assert [s.id for s in list_runs(tmp_path)] == sorted((run.id for run in runs), reverse=True)
    assert list_runs(tmp_path / "nothing") == []


# -- events and the end -----------------------------------------------------------------------------------------------


def test_events_are_appended_and_survive_a_torn_line(tmp_path):
    run = create(tmp_path)
    run.event("started", step=0)
    run.close()
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(b'{"ts": 1, "kind": "to')
    again = RunFolder(run.path)
    again.event("resumed", step=4)
    assert [event["kind"] for event in again.events()] == ["created", "started", "resumed"]
    assert all(event["ts"] > 0 for event in again.events())


def test_remove_takes_everything_but_not_from_an_owner(tmp_path):
    run = create(tmp_path)
    with FileLease(run.path), pytest.raises(RunBusy):
        run.remove()
    assert run.read_status()
    run.remove()
    assert os.listdir(tmp_path) == []


def test_nothing_here_imports_torch():
    modules = ("folder.run_folder", "checkpoint.checkpoints", "metrics.sinks")
    code = f"import sys, {', '.join(f'rlstudio.experiment.{module}' for module in modules)};"
    code += "sys.exit('torch' in sys.modules or 'tensorboard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("status.json", RunFolder.last_status),
        ("config.yaml", RunFolder.read_config),
        ("events.jsonl", lambda run: list(run.events())),
        ("lease.json", lambda run: FileLease(run.path)),
    ],
)
def test_b5_a_file_of_too_many_bytes_is_not_read(tmp_path, name, read):
    run = create(tmp_path / "runs")
    with (run.path / name).open("ab") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(StorageError, match=rf"{name}: larger than [\d,]+ bytes, which no .* is$"):
        read(run)
    assert len(list_runs(tmp_path / "runs")) == (0 if name == "status.json" else 1)


def test_b5_a_long_line_of_the_history_is_left_out(tmp_path):
    run = create(tmp_path / "runs")
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(b'{"kind":"' + b"x" * (2 << 20) + b'"}\n{"kind":"after"}\n')
    assert [event["kind"] for event in run.events()] == ["created", "after"]
