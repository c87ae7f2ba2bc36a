"""Lineage: quick, without torch, true about repositories and packages, and nothing a repository says is run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlstudio
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage import lineage as module
from rlstudio.experiment.lineage.changes import OWN_PACKAGE, code_changes
from rlstudio.experiment.lineage.git import changed_since, commit_of
from rlstudio.experiment.lineage.lineage import EVENT, installed_versions, lineage, lock_hash, recorded_lineage
from rlstudio.experiment.lineage.secrets import MASK, masked, masked_text
from support.deadlines import PATIENCE

KEYS = {"code", "lock_hash", "packages", "versions", "host", "platform", "hardware", "command", "directory", "user"}


def git(directory: Path, *args: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *settings, "-C", directory, *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "a repository"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "train.py").write_text("first\n")
    git(root, "add", "train.py")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def test_it_is_json_and_holds_each_key() -> None:
    document = lineage()
    assert set(document) == KEYS
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert set(document["hardware"]) == {"cpu", "cores", "memory", "gpus"}
    assert document["hardware"]["memory"] > 1 << 28
    assert document["host"] == os.uname().nodename


def test_it_imports_nothing_that_takes_long() -> None:
    code = "import sys; from rlstudio.experiment.lineage.lineage import lineage; lineage(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert not {"torch", "numpy", "gymnasium", "pydantic"} & set(done.stdout.split())


def test_an_event_keeps_it_and_the_last_start_counts(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, NewRun(name="a", algo="ppo", env_id="CartPole-v1", config_yaml="{}"))
    assert recorded_lineage(folder) is None
    document = lineage()
    folder.event(EVENT, **{**document, "host": "elsewhere"})
    folder.event(EVENT, **document)
    folder.event("resumed")
    folder.close()
    assert recorded_lineage(folder) == document


# -- packages ---------------------------------------------------------------------------------------------------------


def test_versions_are_those_of_the_metadata() -> None:
    versions = lineage()["versions"]
    assert versions["rlstudio"] == rlstudio.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    for name in ("torch", "numpy", "gymnasium"):
        assert versions[name] == importlib.metadata.version(name)


def test_every_installed_distribution_is_found() -> None:
    found = installed_versions(sys.path)
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"].lower().replace("_", "-").replace(".", "-")
        assert found[name] == importlib.metadata.version(name)


def test_the_hash_is_over_sorted_lines_whatever_the_order_of_folders(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in ("one/Some_Thing-1.2+cpu.dist-info", "one/notes.txt", "other/some.thing-9.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
    (other / "old-0.1-py3.11.egg-info").mkdir()
    (other / "editable.egg-info").mkdir()
    found = installed_versions([str(one), str(tmp_path / "nowhere"), str(other)])
    assert found == {"some-thing": "1.2+cpu", "old": "0.1"}
    expected = hashlib.sha256(b"old==0.1\nsome-thing==1.2+cpu\n").hexdigest()
    assert lock_hash(found) == lock_hash(dict(reversed(found.items()))) == expected


# -- code -------------------------------------------------------------------------------------------------------------


def test_commit_and_dirty_flag(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == {"root": str(repository), "commit": commit, "dirty": False}
    (repository / "untracked.txt").touch()
    assert commit_of(repository)["dirty"] is False
    (repository / "train.py").write_text("changed\n")
    assert commit_of(repository)["dirty"] is True
    git(repository, "add", "train.py")
    assert commit_of(repository)["dirty"] is True
    git(repository, "commit", "--quiet", "-m", "second")
    assert commit_of(repository)["dirty"] is False


def test_a_project_of_its_own_is_told_beside_the_checkout(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "below").mkdir()
    monkeypatch.chdir(repository / "below")
    assert lineage()["code"]["project"] == commit_of(repository)


def test_inside_the_checkout_there_is_no_other_project(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setattr(module, "_PACKAGE", repository / "src" / "rlstudio")
    assert lineage()["code"] == {"rlstudio": commit_of(repository), "project": None}


def test_an_installed_rlstudio_is_not_of_the_project_around_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setattr(module, "_PACKAGE", repository / ".venv/lib/python3.11/site-packages/rlstudio")
    assert lineage()["code"] == {"rlstudio": None, "project": commit_of(repository)}


def test_no_repository_no_commit_no_git_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None
    assert commit_of(tmp_path / "nowhere") is None
    git(tmp_path, "init", "--quiet")
    assert commit_of(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "commit_of", commit_of)  # which asks again; in tests it is asked once otherwise
    assert lineage()["code"] == {"rlstudio": None, "project": None}


def test_a_working_directory_that_is_gone_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert lineage()["code"]["project"] is None


def test_a_git_that_hangs_or_is_none_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexec sleep 1000000\n")
    fake.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("rlstudio.experiment.lineage.git.SECONDS", 0.1)
    assert commit_of(tmp_path) is None
    fake.write_text("not a program")
    assert commit_of(tmp_path) is None


def test_variables_of_a_surrounding_git_do_not_lead_elsewhere(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = commit_of(repository)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert commit_of(repository) == expected


def test_nothing_in_the_repository_is_written(repository: Path) -> None:
    os.utime(repository / "train.py", (1, 1))  # a plain `git status` would refresh the index
    before = (repository / ".git/index").stat()
    assert commit_of(repository)["dirty"] is False
    after = (repository / ".git/index").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert not (repository / ".git/index.lock").exists()


def hostile(repository: Path, name: str) -> Path:
    """A program that leaves a trace when somebody runs it, and the file that is the trace."""
    trace = repository.parent / f"{name}.ran"
    program = repository.parent / name
    program.write_text(f"#!/bin/sh\ntouch '{trace}'\nexit 1\n")
    program.chmod(0o700)
    return trace


def run_by_git(repository: Path, trace: Path) -> bool:
    """Whether git, asked without care, would have run it; the trace is removed."""
    subprocess.run(["git", "-C", repository, "status"], capture_output=True, check=False)
    ran = trace.exists()
    trace.unlink(missing_ok=True)
    return ran


def test_a_hostile_file_system_monitor_is_not_run(repository: Path) -> None:
    trace = hostile(repository, "monitor")
    git(repository, "config", "core.fsmonitor", str(repository.parent / "monitor"))
    assert run_by_git(repository, trace)
    assert commit_of(repository)["dirty"] is False
    assert not trace.exists()


def test_a_hostile_hook_is_not_run(repository: Path) -> None:
    trace = hostile(repository, "post-index-change")
    git(repository, "config", "core.hooksPath", str(repository.parent))
    os.utime(repository / "train.py", (1, 1))
    assert run_by_git(repository, trace)
    os.utime(repository / "train.py", (2, 2))
    assert commit_of(repository)["dirty"] is False
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["clean", "process"])
@pytest.mark.parametrize("name", ["evil", "e=vil.x"])
def test_a_hostile_filter_is_not_run(repository: Path, kind: str, name: str) -> None:
    trace = hostile(repository, "filter")
    extra = repository / ".git" / "more.config"
    subprocess.run(
        ["git", "config", "--file", extra, f"filter.{name}.{kind}", str(repository.parent / "filter")], check=True
    )
    git(repository, "config", "include.path", str(extra))
    (repository / ".git/info/attributes").write_text(f"* filter={name}\n")
    os.utime(repository / "train.py", (1, 1))
    assert run_by_git(repository, trace)
    os.utime(repository / "train.py", (2, 2))
    assert commit_of(repository)["dirty"] is None
    assert not trace.exists()


def test_a_filter_of_the_user_is_the_users_choice(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = repository.parent / "gitconfig"
    subprocess.run(["git", "config", "--file", own, "filter.lfs.clean", "cat"], check=True)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    assert commit_of(repository)["dirty"] is False


def test_nothing_is_fetched_for_a_hostile_partial_clone(repository: Path) -> None:
    trace = hostile(repository, "ssh")
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://nowhere.invalid/x",
        "core.sshCommand": str(repository.parent / "ssh"),
    }.items():
        git(repository, "config", key, value)
    (repository / ".git/objects" / tree[:2] / tree[2:]).unlink()  # now git would fetch it
    assert run_by_git(repository, trace)
    assert commit_of(repository)["dirty"] is None
    assert not trace.exists()


# -- machine ----------------------------------------------------------------------------------------------------------


def test_gpus_from_the_files_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(["NVIDIA H200", "NVIDIA A100 80GB PCIe"]):
        folder = tmp_path / f"0000:00:0{number}.0"
        folder.mkdir()
        (folder / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 41\n")
    monkeypatch.setattr(module, "_GPUS", tmp_path)
    assert lineage()["hardware"]["gpus"] == ["NVIDIA H200", "NVIDIA A100 80GB PCIe"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo 'NVIDIA H200'; echo 'NVIDIA H200'", ["NVIDIA H200"] * 2), ("exit 9", []), ("exec sleep 1000000", [])],
)
def test_gpus_from_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: list[str]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(module, "_GPUS", tmp_path / "nowhere")
    monkeypatch.setattr(module, "NVIDIA_SECONDS", 0.5)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert lineage()["hardware"]["gpus"] == expected


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 123_456_789)
    assert lineage()["user"] == "123456789"


# -- command ----------------------------------------------------------------------------------------------------------


def test_the_command_is_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rlctl", "launch", "-f", "a.yaml", "--token", "hunter2", "train.passes=4"])
    assert lineage()["command"] == ["rlctl", "launch", "-f", "a.yaml", "--token", MASK, "train.passes=4"]


@pytest.mark.parametrize(
    "argument",
    [
        "--api-key=hunter2",
        "--wandb-api-key=hunter2",
        "WANDB_API_KEY=hunter2",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        "PGPASSWORD=hunter2",
        "env.kwargs.accessToken=hunter2",
        "env.kwargs={user: me, password: 'hunter2, hunter2'}",
        '{"secret": "hunter2"}',
        "Authorization: Bearer hunter2",
        "https://me:hunter2@example.org/x",
        "https://me:h@hunter2@example.org/x",
        "https://example.org/x?a=1&token=hunter2",
        "ghp_hunter2hunter2",
        "x=sk-hunter2hunter2",
    ],
)
def test_what_looks_like_a_secret_is_masked(argument: str) -> None:
    (shown,) = masked([argument])
    assert MASK in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    "argument",
    [
        "train.passes=4",
        "train.lr=1e-3",
        "model.max_tokens=512",
        "author=me",
        "configs/ppo/task-cartpole.yaml",
        "https://example.org/a@b",
        "env.kwargs={monkey: 1, keyboard: 2}",
        "tokenizer=bpe",
    ],
)
def test_settings_stay_readable(argument: str) -> None:
    assert masked([argument]) == [argument]


def test_only_the_value_after_a_name_is_masked() -> None:
    given_args = ["--token", "a", "b", "--password", "--quiet", "-f", "x"]
    assert masked(given_args) == ["--token", MASK, "b", "--password", "--quiet", "-f", "x"]


@given(st.lists(st.text()))
def test_masking_never_fails_and_keeps_the_count(argv: list[str]) -> None:
    assert len(masked(argv)) == len(argv)


def test_the_folder_that_a_shell_stands_in_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variable sounds like a password, and every path below it would be cut."""
    monkeypatch.setenv("PWD", "/home/me/work")
    monkeypatch.setenv("OLDPWD", "/home/me")
    monkeypatch.setenv("DB_PWD", "hunter2hunter2")
    assert (
        masked_text("sqlite:////home/me/work/mlflow.db?p=hunter2hunter2")
        == f"sqlite:////home/me/work/mlflow.db?p={MASK}"
    )


def test_masking_a_huge_argument_ends() -> None:
    """A pattern that looks at every pair of places would take hours."""
    assert len(masked(["a" * 300_000, "a:" * 150_000, "://" * 100_000, "token " * 50_000])) == 4


# -- what has changed since -------------------------------------------------------------------------------------------


def test_files_that_are_other_than_they_were(repository: Path) -> None:
    then = commit_of(repository)
    assert changed_since(repository, then) == []
    (repository / "train.py").write_text("second\n")
    dirty = commit_of(repository)
    assert dirty["files"] == {"train.py": hashlib.sha256(b"second\n").hexdigest()}
    assert changed_since(repository, then) == ["train.py"]
    assert changed_since(repository, dirty) == []
    git(repository, "commit", "--quiet", "-am", "second")
    assert changed_since(repository, then) == ["train.py"]
    assert changed_since(repository, dirty) == []  # the same content, committed since
    git(repository, "rm", "--quiet", "train.py")
    assert changed_since(repository, dirty) == ["train.py"]


def test_files_that_training_is_computed_in_come_first(repository: Path) -> None:
    files = [repository / OWN_PACKAGE / name for name in ("cli/app.py", "ops/gae.py", "server/app.py")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("1\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "first")
    then = commit_of(repository)
    for file in files:
        file.write_text("2\n")
    changes = code_changes({"code": {"rlstudio": then}}, {"code": {"rlstudio": commit_of(repository)}})
    assert [change.name for change in changes] == [
        OWN_PACKAGE + name for name in ("ops/gae.py", "cli/app.py", "server/app.py")
    ]


def test_what_is_not_recorded_is_not_guessed(repository: Path) -> None:
    then = commit_of(repository)
    assert changed_since(repository, {**then, "commit": "0" * 40}) is None
    assert changed_since(repository, {**then, "dirty": True}) is None  # as older records have it
    assert changed_since(repository.parent, then) is None


def test_the_source_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text("1\n")
    before = module.source_hash()
    (tmp_path / "notes.txt").touch()
    assert module.source_hash() == before == lineage()["source"]
    (tmp_path / "b.py").touch()
    assert module.source_hash() != before
