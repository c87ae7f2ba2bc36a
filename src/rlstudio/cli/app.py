"""`rlctl` (also called `rlstudio`): one program, its commands, and how it ends.

Everything but training, evaluating and drawing films never imports torch: this module and those it imports stay light,
and a command imports what it needs when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Protocol

import typer
from typer.core import TyperGroup
from typer.main import get_command

from rlstudio.cli import failures
from rlstudio.cli.arguments.bare_options import with_values
from rlstudio.cli.remote.place import ServerChoice, split_server
from rlstudio.cli.screen.overview import OPTIONS, command_lines
from rlstudio.cli.screen.runs_dir import given_runs_dir, in_runs_dir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError
from rlstudio.core.host.portable import NotPortable, restart
from rlstudio.core.host.process_exit import noticing_exits

PROGRAMS = ("rlctl", "rlstudio")

SECTIONS: dict[str, dict[str, str]] = {
    "Train": {
        "launch": "launch:launch",
        "run": "launch:run",
        "resume": "launch:resume",
        "fork": "fork:fork",
        "sweep": "sweep:app",
    },
    "Steer": {
        "stop": "queue:stop",
        "pause": "queue:pause",
        "cancel": "queue:cancel",
        "queue": "queue:queue",
        "worker": "queue:worker",
        "cluster": "cluster.status:app",
    },
    "Look": {
        "ls": "runs:ls",
        "show": "runs:show",
        "logs": "looking.logs:logs",
        "plot": "looking.measured:plot",
        "compare": "looking.measured:compare",
        "report": "looking.report:report",
        "variance": "looking.variance:variance",
        "diff": "looking.diff:diff",
        "metrics": "looking.measured:metrics",
        "profile": "looking.profile:profile",
        "send": "looking.measured:send",
    },
    "Repeat": {"reproduce": "again.reproduce:reproduce", "rewind": "again.rewind:rewind"},
    "Judge": {
        "eval": "evaluate:evaluate",
        "play": "evaluate:play",
        "record": "record:record",
        "tournament": "games.tournament:tournament",
    },
    "Ship": {"export": "export:export", "serve-policy": "serve:serve_policy", "import": "export:import_policy"},
    "Serve": {"serve": "serve:serve", "token": "token:app"},
    "Release": {"promote": "releases:promote", "rollback": "releases:rollback", "models": "releases:models"},
    "Keep": {
        "tag": "runs:tag",
        "note": "runs:note",
        "adopt": "runs:adopt",
        "replay": "upkeep.replay:replay",
        "rm": "runs:rm",
        "gc": "runs:gc",
        "backup": "releases:backup",
        "migrate": "upkeep.migrate:migrate",
    },
    "Choose": {
        "algos": "catalogs:algos",
        "envs": "catalogs:envs",
        "presets": "catalogs:presets",
        "zoo": "shipped.zoo:zoo",
        "schema": "catalogs:schema",
        "init": "catalogs:init",
        "check": "catalogs:check",
        "doctor": "upkeep.doctor:doctor",
        "plugins": "plugins:plugins",
    },
}
"""Commands by what they are for: name -> module of `cli.commands` and function (or a group of further commands)."""


class _Formatter(Protocol):
    """The part of Click's HelpFormatter that is used here; Typer brings a Click of its own."""

    def write(self, string: str) -> None: ...


class Sections(TyperGroup):
    """Help with the commands by what they are for, on one screen."""

    def format_options(self, ctx: typer.Context, formatter: _Formatter) -> None:  # type: ignore[override]
        lines = "".join(f"{line}\n" for line in command_lines(SECTIONS))
        formatter.write(f"\n{lines}\n{OPTIONS}")


COMMANDS = {name: where for commands in SECTIONS.values() for name, where in commands.items()}


def _version(asked: bool) -> None:
    if asked:
        from rlstudio.core.version import __version__

        stdout().line(f"rlstudio {__version__}")
        raise typer.Exit


def program(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Runs of a server instead of those here; or set RLSTUDIO_SERVER."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="With --server: a file of mode 0600 with the token."),
    ] = None,
    ca_file: Annotated[
        str | None,
        typer.Option("--ca-file", metavar="FILE", help="With --server: trust these certificates alone."),
    ] = None,
) -> None:
    """Reinforcement learning from a YAML file to a trained policy, in runs that cannot be lost."""
    if ctx.invoked_subcommand is None:
        stdout().raw(ctx.get_help() + "\n")


def application(names: Iterable[str], server: ServerChoice | None = None) -> typer.Typer:
    """The program with these commands. Plain help: drawing it with rich would take longer than all else together."""
    made = typer.Typer(cls=Sections, rich_markup_mode=None, pretty_exceptions_enable=False)
    made.callback(invoke_without_command=True)(program)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        function = getattr(import_module(f"rlstudio.cli.commands.{module}"), attribute)
        if server is not None:
            from rlstudio.cli.remote.dispatch import at_server, group_at_server

            is_group = isinstance(function, typer.Typer)
            function = group_at_server(name, function, server) if is_group else at_server(name, function, server)
        if isinstance(function, typer.Typer):
            made.add_typer(function, name=name)
        else:
            made.command(name)(function)
    return made


def main(args: Sequence[str] | None = None, *, is_program: bool | None = None) -> int:
    """Run one command; returns the exit code. `is_program`: this process is there for nothing else, and may begin anew;
    by default where the arguments are its own."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a replacement stream may not have this method
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    given = list(sys.argv[1:] if args is None else args)
    server = None
    try:
        given, server = _at_server(with_values(given))
        # Only the module of the command that was given is imported, which keeps the start short.
        names = given[:1] if given and given[0] in COMMANDS else COMMANDS
        for argument in given:
            if "\0" in argument:  # a program can pass one, a shell cannot; typer's path options would fail on it
                raise UserError(f"{argument!r}: has a NUL in it, which no name and no path can have")
        with failures.notices(), noticing_exits(failures.complain):
            code = get_command(application(names, server)).main(given, prog_name=_program_name(), standalone_mode=False)
        stdout().flush()
        return code if isinstance(code, int) else 0
    except typer.Abort:
        return failures.INTERRUPTED
    except SystemExit as error:
        if _is_completing() or not failures.claims_success(error):
            raise  # Typer's own, when the reader of its help has left
        return failures.report_exit(error)
    except NotPortable as error:  # raised before anything was done
        if is_program or (is_program is None and args is None):
            restart()
        return failures.report(error)
    except Exception as error:
        where = in_runs_dir(given_runs_dir(given)) if server is None else server.where
        return 1 if _is_completing() else failures.report(error, where)


def _at_server(given: Sequence[str]) -> tuple[list[str], ServerChoice | None]:
    """The command line without its server; a command that no server has is refused before the rest is looked at."""
    rest, server = split_server(given)
    if server is not None:
        from rlstudio.cli.remote.dispatch import refuse_local

        refuse_local(rest, server)
    return rest, server


def _is_completing() -> bool:
    """The shell asks for completions: an error message would land in the middle of the line being typed."""
    return any(os.environ.get(f"_{program.upper()}_COMPLETE") for program in PROGRAMS)


def _program_name() -> str:
    called = Path(sys.argv[0]).name
    return called if called in PROGRAMS else PROGRAMS[0]


if __name__ == "__main__":  # what a sweep in the background is started as
    raise SystemExit(main())
