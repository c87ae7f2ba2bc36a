"""`algos`, `envs`, `presets` and `schema`: what the server has to choose from."""

from __future__ import annotations

from rlstudio.cli.commands.catalogs import print_algos
from rlstudio.cli.screen.terminal import stdout
from rlstudio.client import Client


def algos(client: Client, json: bool) -> None:
    rows = client.catalog()["algos"]
    if json:
        stdout().document(rows)
    else:
        print_algos(stdout(), rows)


def envs(client: Client, filter_text: str, json: bool) -> None:
    matching = [env for env in client.catalog()["envs"] if filter_text.lower() in env["id"].lower()]
    out = stdout()
    if json:
        out.document(matching)
    elif not matching:
        out.line(f"no environment has {filter_text!r} in its id; `rlctl envs` lists all of them")
    else:
        rows = [
            [
                env["id"],
                env["origin"],
                "yes" if env["native"] else "",
                env["extra"] if env["installed"] else f"{env['extra']} (not installed)",
            ]
            for env in matching
        ]
        out.table(["env", "from", "native world", "extra"], rows)


def presets(client: Client, filter_text: str, json: bool) -> None:
    wanted = filter_text.lower()
    rows = [
        preset
        for preset in client.catalog()["presets"]
        if wanted in f"{preset['file']} {preset['algo']} {preset['env']}".lower()
    ]
    out = stdout()
    if json:
        out.document(rows)
    elif rows:
        columns = ("file", "algo", "env", "summary")
        out.table(columns, [[preset[column] for column in columns] for preset in rows])
    else:
        out.line(f"no preset has {filter_text!r} in its file, algo or env; `rlctl presets` lists all of them")


def schema(client: Client, name: str | None, algo: str | None) -> None:
    stdout().document(client.schema(algo or name))
