"""Which server a command line means, and which commands and options it takes."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from rlstudio.cli.app import COMMANDS, main
from rlstudio.cli.remote.dispatch import ALWAYS, LOCAL_ONLY, REMOTE
from rlstudio.cli.remote.place import split_server
from rlstudio.cli.screen.runs_dir import with_place

URL = "http://127.0.0.1:8710"


def local(name):
    """The functions of a command, each by how it is typed."""
    module, _, attribute = COMMANDS[name].partition(":")
    function = getattr(import_module(f"rlstudio.cli.commands.{module}"), attribute)
    if not isinstance(function, typer.Typer):
        return {name: function}
    own = {} if function.registered_callback is None else {name: function.registered_callback.callback}
    inner = {f"{name} {each.name or each.callback.__name__}": each.callback for each in function.registered_commands}
    return {**own, **inner}


EVERY = {typed: function for name in COMMANDS for typed, function in local(name).items()}


def test_a_command_is_one_of_a_server_or_says_why_not():
    """One that is in neither list is refused as those that work on files of that machine."""
    assert set(REMOTE) - set(EVERY) == set()
    assert set(REMOTE) & set(LOCAL_ONLY) == set()


@pytest.mark.parametrize("name", sorted(REMOTE))
def test_a_command_of_a_server_takes_options_of_the_local_one_only(name):
    module, _, attribute = REMOTE[name].partition(":")
    remote = inspect.signature(getattr(import_module(f"rlstudio.cli.remote.{module}"), attribute)).parameters
    assert set(remote) - {"client", "where"} <= set(inspect.signature(EVERY[name]).parameters) - set(ALWAYS)


def test_the_server_may_stand_anywhere(monkeypatch):
    monkeypatch.delenv("RLSTUDIO_SERVER", raising=False)
    for arguments in (["--server", URL, "ls"], ["ls", f"--server={URL}"], ["ls", "--server", URL]):
        rest, choice = split_server(arguments)
        assert (rest, choice.url, choice.where) == (["ls"], URL, f" --server {URL}")
    rest, choice = split_server(["--server", URL, "--token-file", "t", "ls", "--ca-file", "c"])
    assert (rest, choice.token_file, choice.ca_file) == (["ls"], Path("t"), Path("c"))


def test_without_a_server_all_arguments_are_the_commands_own(monkeypatch):
    monkeypatch.delenv("RLSTUDIO_SERVER", raising=False)
    arguments = ["serve-policy", "bundle", "--token-file", "t"]
    assert split_server(arguments) == (arguments, None)
    assert split_server(["ls", "--server"]) == (["ls", "--server"], None)
    assert split_server(["ls", "--", "--server", URL]) == (["ls", "--", "--server", URL], None)


def test_a_folder_that_is_named_counts_more_than_the_environment(monkeypatch):
    monkeypatch.setenv("RLSTUDIO_SERVER", URL)
    assert split_server(["ls"])[1].where == ""
    assert split_server(["ls", "--runs-dir", "x"])[1] is None
    assert split_server(["ls", "--runs-dir", "x", "--server", URL])[1].url == URL


def one_line(capsys, *arguments):
    code = main([*arguments])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    return err


@pytest.mark.parametrize("name", sorted(LOCAL_ONLY.keys() & EVERY.keys()))
def test_other_commands_are_refused_in_one_line(name, capsys):
    line = one_line(capsys, "--server", URL, *name.split())
    assert line == f"rlctl: {name}: {LOCAL_ONLY[name]}\n"


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["launch", "-f", "x.yaml", "--notify", "true"], "--notify"),
        (["launch", "-f", "x.yaml", "--import", "json"], "--import"),
        (["resume", "last", "--allow-inexact"], "--allow-inexact"),
        (["queue", "--reap"], "--reap"),
        (["sweep", "-f", "x.yaml", "--take-over"], "--take-over"),
    ],
)
def test_an_option_that_only_works_here_is_named(arguments, option, capsys):
    line = one_line(capsys, *arguments, "--server", URL)
    assert line == f"rlctl: {option}: is for runs of this machine; leave it or --server out\n"


def test_commands_in_messages_name_the_server():
    message = "run x: is running; end it first with: rlctl stop x"
    assert with_place(message, f" --server {URL}") == f"{message} --server {URL}"
    assert with_place(message, "") == message


def test_here_neither_httpx_nor_torch_is_imported(tmp_path):
    code = (
        "import sys; from rlstudio.cli.app import main; main(['ls', '--runs-dir', sys.argv[1]]);"
        "sys.exit(str({'httpx', 'torch', 'rlstudio.client'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "\n")
