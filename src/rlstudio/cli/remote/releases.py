"""`models`, `promote`, `rollback` and `export`: the registry of a server, and bundles that are fetched from it."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rlstudio.cli.remote.selection import of_word
from rlstudio.cli.screen.terminal import stdout
from rlstudio.client import Client
from rlstudio.core.errors import UnknownName, UserError

if TYPE_CHECKING:
    from rlstudio.delivery.bundle import Bundle

STAGES = ("production", "staging", "archived")


def models(client: Client, model: str | None, json: bool, where: str) -> None:
    from rlstudio.cli.commands.releases import print_models

    if model is None:
        document: dict[str, Any] = {"versions": client.models.list()["versions"], "history": []}
    else:
        one = client.models.get(model)
        document = {"versions": one["versions"], "history": one["history"]}
    out = stdout()
    if json:
        out.document(document)
    elif not document["versions"]:
        out.line(f"no models yet; make one with: rlctl promote RUN --model NAME{where}")
    else:
        print_models(out, document)


def promote(
    client: Client,
    what: str,
    model: str,
    to: str,
    checkpoint: str,
    if_current: int | None,
    margin: float,
    alpha: float,
    budget: int,
    min_return: float | None,
    max_std: float | None,
    worst_return: float | None,
    force: str | None,
    json: bool,
) -> None:
    from rlstudio.cli.commands.releases import print_release

    name, colon, _ = what.partition(":")
    target = model or (name if colon else "")
    if not target:
        raise UserError(f"promote {what}: say which model it becomes a version of with --model NAME")
    given = {"margin": margin, "alpha": alpha, "budget": budget, "min_return": min_return, "max_std": max_std}
    settings = {key: value for key, value in {**given, "worst_return": worst_return}.items() if value is not None}
    operation = client.models.promote(
        target,
        what if colon else of_word(client, what)[0]["id"],
        to=to,
        checkpoint=None if colon else checkpoint,
        if_current=if_current,
        force=force,
        settings=settings,
    )
    ended = client.ended(operation)
    refused = ended.get("result") if ended["state"] == "failed" else None
    if refused is not None:  # judged and not promoted
        print_release(refused, json, f"{refused['name']} stays in stage {refused['stage']}")
    release = client.finished(ended)
    print_release(release, json, f"{release['name']} is in {release['stage']}")


def rollback(client: Client, model: str, if_current: int | None, reason: str, json: bool) -> None:
    version = client.models.rollback(model, reason, if_current=if_current)
    if json:
        stdout().document(version)
    else:
        stdout().line(f"{version['name']} is in production again", "bold")


def export(client: Client, run: str, output: Path, checkpoint: str, format: str | None, json: bool) -> None:
    from rlstudio.cli.commands.export import export_formats, print_bundle

    name, colon, version = run.partition(":")
    if colon:
        number = _number(client, name, version)

        def fetch(target: Path) -> None:
            client.models.download_bundle(name, number, target)

        _unpacked(fetch, output)
        print_bundle(_opened(output), json, asked=())
        return
    formats = export_formats(format)
    operation = client.runs.export(of_word(client, run)[0]["id"], checkpoint, formats)
    result = client.finished(operation)

    def download(target: Path) -> None:
        client.download(result["download"], target)

    _unpacked(download, output)
    print_bundle(_opened(output), json, asked=formats)


def _number(client: Client, model: str, version: str) -> int:
    """Of `3`, `production` or `staging`."""
    if version.isascii() and version.isdigit():
        return int(version)
    versions = client.models.get(model)["versions"]
    matches = [int(one["version"]) for one in versions if one["stage"] == version]
    if version not in STAGES or not matches:
        raise UnknownName(f"{model}:{version}: there is no such version; name a number, production or staging")
    return max(matches)


def _opened(folder: Path) -> Bundle:
    """Verified against its manifest."""
    from rlstudio.delivery.bundle import open_bundle

    return open_bundle(folder)


def _unpacked(fetch: Callable[[Path], None], output: Path) -> None:
    """A bundle that comes as one tar file, as a new folder. Of the archive only plain files with plain names count."""
    if output.exists():
        raise UserError(f"{output}: is there already; name a new folder")
    output.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rlctl-", dir=output.parent) as folder:
        archive, unpacked = Path(folder, "bundle.tar"), Path(folder, "bundle")
        fetch(archive)
        try:
            _extract(archive, unpacked)
        except (tarfile.TarError, OSError) as error:
            raise UserError(f"{output}: what the server sent is no bundle: {error}") from error
        unpacked.rename(output)


def _extract(archive: Path, folder: Path) -> None:
    """The files of the one folder in it; by hand, as the first releases of Python 3.11 know no filters of tarfile."""
    folder.mkdir()
    with tarfile.open(archive, "r:") as file:
        for entry in file:
            place = PurePosixPath(entry.name)
            source = file.extractfile(entry) if entry.isfile() else None
            if source is None or len(place.parts) != 2 or ".." in place.parts:
                raise tarfile.ExtractError(f"{entry.name!r} is no file of one")
            with source, (folder / place.name).open("xb") as written:
                shutil.copyfileobj(source, written)
