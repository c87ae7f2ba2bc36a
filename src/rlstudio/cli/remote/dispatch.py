"""Commands of a server: each has the options of the local one, and says in one line which of them it cannot take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from rlstudio.cli.remote.place import ServerChoice
from rlstudio.core.errors import UserError

REMOTE = {
    "launch": "steering:launch",
    "run": "steering:run",
    "resume": "steering:resume",
    "fork": "steering:fork",
    "stop": "steering:stop",
    "pause": "steering:pause",
    "cancel": "steering:cancel",
    "queue": "steering:queue",
    "ls": "runs:ls",
    "show": "runs:show",
    "tag": "runs:tag",
    "note": "runs:note",
    "rm": "runs:rm",
    "logs": "logs:logs",
    "plot": "measured:plot",
    "compare": "measured:compare",
    "metrics": "measured:metrics",
    "diff": "measured:diff",
    "export": "releases:export",
    "promote": "releases:promote",
    "rollback": "releases:rollback",
    "models": "releases:models",
    "sweep": "sweeps:sweep",
    "sweep show": "sweeps:show",
    "sweep ls": "sweeps:ls",
    "sweep stop": "sweeps:stop",
    "sweep rm": "sweeps:rm",
    "token add": "tokens:add",
    "token ls": "tokens:ls",
    "token revoke": "tokens:revoke",
    "algos": "catalogs:algos",
    "envs": "catalogs:envs",
    "presets": "catalogs:presets",
    "schema": "catalogs:schema",
}
"""Command -> module of `cli.remote` and function."""

ITS_PROCESS = "is a process on the machine that has the runs; start it there"
ITS_FILES = "works on files of the machine that has the runs; call it there"
PLAYS = "loads a policy and plays here; fetch it with: rlctl export RUN -o DIR, then name DIR without --server"
ABOUT_HERE = "is about this machine and asks no server; leave --server out"

LOCAL_ONLY = {
    **dict.fromkeys(("worker", "cluster", "serve"), ITS_PROCESS),
    **dict.fromkeys(
        (
            "adopt",
            "gc",
            "backup",
            "replay",
            "send",
            "rewind",
            "reproduce",
            "profile",
            "report",
            "variance",
            "migrate",
            "sweep logs",
        ),
        ITS_FILES,
    ),
    **dict.fromkeys(("eval", "play", "record", "tournament", "serve-policy"), PLAYS),
    **dict.fromkeys(("init", "check", "doctor", "plugins", "import", "zoo"), ABOUT_HERE),
}
"""Why a command is not one of a server."""

ALWAYS = ("ctx", "runs_dir")


def refuse_local(arguments: Sequence[str], choice: ServerChoice) -> None:
    """Before the rest of the command line is looked at."""
    for name in (" ".join(arguments[:1]), " ".join(arguments[:2])):
        if name in LOCAL_ONLY:
            raise refusal(name, choice)


def refusal(name: str, choice: ServerChoice) -> UserError:
    """Of a command that no server has."""
    unset = "" if choice.is_typed else " (unset RLSTUDIO_SERVER)"
    return UserError(f"{name}: {LOCAL_ONLY.get(name, ITS_FILES)}{unset}")


def at_server(name: str, local: Callable[..., object], choice: ServerChoice) -> Callable[..., object]:
    """The command `name` with the options of `local`, which asks the server."""

    @wraps(local)
    def command(**given: Any) -> object:
        if name not in REMOTE:
            raise refusal(name, choice)
        if getattr(given.get("ctx"), "invoked_subcommand", None) is not None:
            return 0
        module, _, attribute = REMOTE[name].partition(":")
        remote = getattr(import_module(f"rlstudio.cli.remote.{module}"), attribute)
        taken = inspect.signature(remote).parameters
        _refuse_others(local, {key: value for key, value in given.items() if key not in (*taken, *ALWAYS)})
        from rlstudio.client import Client

        with Client(choice.url, token_file=choice.token_file, ca_file=choice.ca_file) as client:
            own = {key: value for key, value in given.items() if key in taken}
            with client.understood():
                return remote(client, **own, **({"where": choice.where} if "where" in taken else {}))

    return command


def group_at_server(name: str, group: typer.Typer, choice: ServerChoice) -> typer.Typer:
    """A group of commands with each of them at the server."""
    made = typer.Typer(rich_markup_mode=None)
    callback = group.registered_callback
    if callback is not None and callback.callback is not None:
        if name in REMOTE:
            made.callback(invoke_without_command=True)(at_server(name, callback.callback, choice))
        else:  # it only holds the help of the group
            made.callback()(callback.callback)
    for command in group.registered_commands:
        assert command.callback is not None
        inner = command.name or command.callback.__name__
        made.command(inner)(at_server(f"{name} {inner}", command.callback, choice))
    return made


def _refuse_others(local: Callable[..., object], given: dict[str, Any]) -> None:
    hints = get_type_hints(local, include_extras=True)
    for key, value in given.items():
        default = inspect.signature(local).parameters[key].default
        if value not in (None, False, "", [], (), default):
            raise UserError(f"{_option(key, hints.get(key))}: is for runs of this machine; leave it or --server out")


def _option(key: str, hint: object) -> str:
    """As it is typed."""
    if get_origin(hint) is not None:
        for part in get_args(hint):
            # Written in an annotation, the first name is where a default would be.
            names = [part.default, *(part.param_decls or ())] if isinstance(part, OptionInfo) else []
            typed = [name for name in names if isinstance(name, str) and name.startswith("--")]
            if typed:
                return typed[0]
    return f"--{key.replace('_', '-')}"
