"""`sweep`, `sweep show`, `ls`, `stop` and `rm`: the server drives it."""

from __future__ import annotations

import time
from pathlib import Path

from rlstudio.cli.remote.steering import read_text
from rlstudio.cli.screen.sweep_view import print_sweep, print_sweeps
from rlstudio.cli.screen.terminal import stdout
from rlstudio.client import Client
from rlstudio.core.errors import UserError

POLL_SECONDS = 2.0
DRIVEN = ("RUNNING", "STARTING")


def sweep(
    client: Client,
    file: str | None,
    resume: str | None,
    name: str | None,
    max_concurrent: int | None,
    detach: bool,
    json: bool,
    where: str,
) -> int:
    if (file is None) == (resume is None):
        raise UserError("give a sweep with -f FILE, or one to go on with: --resume SWEEP")
    if resume is not None:
        if name is not None or max_concurrent is not None:
            raise UserError("--resume: the sweep goes on as it was begun; leave the other options out")
        document = client.sweeps.resume(resume)
    else:
        document = client.sweeps.launch(read_text(str(file)), name=name, max_concurrent=max_concurrent)
    called, out = str(document["name"]), stdout()
    if not detach:
        if not json:
            out.line(f"sweep {called}: is with {client.address}; leave with Ctrl-C, it goes on", "dim")
            out.flush()
        while (document := client.sweeps.get(called))["state"] in DRIVEN:
            time.sleep(POLL_SECONDS)
    if json:
        out.document(document)
    elif detach:
        out.line(f"sweep {called}: {document['state']}; look at it with: rlctl sweep show {called}{where}")
    else:
        print_sweep(out, document)
    return 0 if detach or document["best"] is not None else 1


def show(client: Client, name: str, out: Path | None, json: bool) -> None:
    document = client.sweeps.get(name)
    if json:
        stdout().document(document)
    else:
        print_sweep(stdout(), document)
    if out is not None:
        from rlstudio.storage.output_file import written_whole

        target = out / "best.yaml"
        with written_whole(target) as partial:
            partial.write_text(client.sweeps.best(name)["yaml"])
        stdout().line(str(target))


def ls(client: Client, json: bool, where: str) -> None:
    sweeps = client.sweeps.list()
    if json:
        stdout().document(sweeps)
    elif not sweeps:
        stdout().line(f"no sweeps at {client.address} yet; start one with: rlctl sweep -f FILE{where}")
    else:
        print_sweeps(stdout(), sweeps)


def stop(client: Client, name: str, json: bool, where: str) -> None:
    document = client.sweeps.stop(name)
    if json:
        stdout().document(document)
    else:
        stdout().line(f"sweep {name}: {document['state']}; go on with: rlctl sweep --resume {name}{where}")


def rm(client: Client, name: str, yes: bool) -> int:
    from rlstudio.cli.arguments.confirm import confirmed

    runs = [run for trial in client.sweeps.get(name)["trials"] for run in trial["runs"]]
    question = f"delete sweep {name} and {'its run' if len(runs) == 1 else f'its {len(runs)} runs'} for good?"
    if not yes and not confirmed("sweep rm", runs, question):
        return 1
    client.sweeps.delete(name)
    stdout().line(f"sweep {name}: removed, with {len(runs)} runs")
    return 0
