"""`serve` and `serve-policy`: what answers over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from rlstudio.cli.arguments.options import Imports, RunsDir
from rlstudio.cli.failures import complain
from rlstudio.cli.screen.terminal import stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="File for the new token; by default it is printed.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Another host name that clients may use. May be repeated."),
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="Private key, if the certificate file has none.")
]


def serve(
    host: Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8710,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File for a token that is valid while this server runs."),
    ] = None,
    allow_host: AllowHost = None,
    modules: Imports = None,
    slots: Annotated[
        str,
        typer.Option("--slots", metavar="cpu=N,gpu=N,memory_mb=N", help="Resources for runs; by default all."),
    ] = "",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Serve API, dashboard and queue until Ctrl-C; runs keep going.

    \b
    rlctl serve
    rlctl serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    from rlstudio.server.http.extras import require_stack

    require_stack("serve")
    from rlstudio.experiment.config.imports import import_modules

    import_modules(
        modules or (), runs_dir=runs_dir
    )  # here too: one that cannot be imported is a mistake to be told now
    from rlstudio.control.store.resources import parse_slots
    from rlstudio.server.http.wire.running import ListenPlace, read_certificate
    from rlstudio.server.studio import serve_studio

    serve_studio(
        runs_dir,
        ListenPlace(host, port, tuple(allow_host or ()), read_certificate(tls_cert, tls_key)),
        slots=parse_slots(slots),
        imports=tuple(modules or ()),
        token_file=token_file,
        say=_saying(),
        complain=complain,
    )


def serve_policy(
    bundle: Annotated[
        str,
        typer.Argument(metavar="BUNDLE", help="A folder that export wrote; or MODEL:3, MODEL:production."),
    ],
    host: Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8700,
    max_batch: Annotated[int, typer.Option("--max-batch", min=1, max=65536, help="Most rows in one request.")] = 256,
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no token; on the loopback address only.")] = False,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Answer observations with actions over HTTP, until Ctrl-C.

    \b
    rlctl serve-policy bundles/cartpole --token-file token
    rlctl serve-policy cartpole:production
    """
    from rlstudio.server.http.extras import require_stack

    require_stack("serve-policy")
    from rlstudio.experiment.config.imports import import_modules

    import_modules(modules or (), runs_dir=runs_dir)
    from rlstudio.control.registry.bundles import named_bundle
    from rlstudio.delivery.bundle import open_bundle
    from rlstudio.server.http.wire.running import ListenPlace, read_certificate
    from rlstudio.server.serve import serve_policy as answer

    answer(
        named_bundle(bundle, runs_dir) or open_bundle(bundle),
        ListenPlace(host, port, tuple(allow_host or ()), read_certificate(tls_cert, tls_key)),
        max_batch=max_batch,
        token_file=token_file,
        auth=not no_auth,
        say=_saying(),
        complain=complain,
    )


def _saying() -> Callable[[str], None]:
    out = stdout()

    def say(line: str) -> None:
        out.line(line)
        out.flush()  # a program that started the server reads its address from a pipe

    return say
