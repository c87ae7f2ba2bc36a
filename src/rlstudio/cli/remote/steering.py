"""`launch`, `run`, `resume`, `fork`, `stop`, `pause`, `cancel` and `queue`.

Training happens where the server is: without `--detach` the command follows the run until its end, and leaving it ends
nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rlstudio.cli.arguments.selection import Given
from rlstudio.cli.remote.logs import follow_run
from rlstudio.cli.remote.selection import is_group, of_word, selected
from rlstudio.cli.screen.terminal import stdout
from rlstudio.client import Client
from rlstudio.client.documents import RunDocument
from rlstudio.core.errors import ConfigError, RLStudioError, UserError
from rlstudio.core.run_state import OWNED, RunState

STOP_SECONDS = 30.0
"""A run leaves within 5 s of the signal; one on another host reads the request at its next heartbeat."""

LONGEST_FILE = 1 << 20
CODES = {
    "COMPLETED": 0,
    "gate_failed": 7,
    "diverged": 6,
    "env_fault": 5,
    "config": 2,
    "INTERRUPTED": 130,
}
"""Exit codes by the reason or the state that a run ended with, as where it is trained here; otherwise 1."""


def launch(
    client: Client,
    overrides: Given,
    file: str | None,
    algo: str | None,
    env: str | None,
    name: str | None,
    seed: int | None,
    seeds: int,
    dry_run: bool,
    detach: bool,
    key: str | None,
    quiet: bool,
    json: bool,
    where: str,
) -> int:
    config = _experiment(file, algo, env)
    if dry_run:
        checked = client.validate(config, overrides or (), name=name, seed=seed, seeds=seeds)
        if not checked["ok"]:
            raise ConfigError("\n".join(_problem(file or "experiment", dict(one)) for one in checked["problems"]))
        if json:
            stdout().document({"origin": client.address, **checked})
        else:
            stdout().raw(checked["yaml"] or "")
        return 0
    runs = client.launch_seeds(seeds, config, overrides or (), name=name, seed=seed, key=key)
    return _begun(client, runs, detach=detach or key is not None, quiet=quiet, json=json, where=where)


def run(
    client: Client,
    file: str,
    overrides: Given,
    name: str | None,
    seed: int | None,
    seeds: int,
    dry_run: bool,
    detach: bool,
    key: str | None,
    quiet: bool,
    json: bool,
    where: str,
) -> int:
    return launch(client, overrides, file, None, None, name, seed, seeds, dry_run, detach, key, quiet, json, where)


def _experiment(file: str | None, algo: str | None, env: str | None) -> str | dict[str, object]:
    if file is not None:
        if algo or env:
            raise UserError(
                "-f together with --algo or --env: give the file, and change it with policy.algo=... env.id=..."
            )
        return read_text(file)
    if algo is None or env is None:
        raise UserError("nothing to launch; give a file with -f FILE, or --algo ALGO --env ENV")
    from rlstudio.experiment.config.presets import find_preset

    preset = find_preset(algo, env)
    return preset.read_text() if preset is not None else {"env": {"id": env}, "policy": {"algo": algo}}


def read_text(file: str) -> str:
    """A file of this machine, or one that ships with RLStudio."""
    from rlstudio.experiment.config.presets import locate

    path = locate(file)
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise UserError(f"{file}: has more than {LONGEST_FILE:,} bytes, which no experiment has")
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise UserError(f"{file}: cannot be read: {reason}") from error


def _problem(file: str, problem: dict[str, object]) -> str:
    place = ":".join(str(problem[part]) for part in ("line", "column") if part in problem)
    parts = [f"{file}:{place}" if place else file, str(problem.get("field") or ""), str(problem["message"])]
    return ": ".join(part for part in parts if part)


def resume(
    client: Client,
    words: Given,
    states: Given,
    envs: Given,
    algos: Given,
    tags: Given,
    detach: bool,
    quiet: bool,
    json: bool,
    where: str,
) -> int:
    overrides = [word for word in words or () if "=" in word]
    named = [word for word in words or () if "=" not in word]
    if not named and not any((states, envs, algos, tags)):
        named = ["last"]
    runs = selected(client, named, states, envs, algos, tags)
    if is_group(named, (states, envs, algos, tags), runs):
        open_states = {RunState.INTERRUPTED, *([RunState.FAILED] if states else [])}
        runs = [run for run in runs if run["state"] in open_states] or runs
    resumed = [client.runs.resume(run["id"], overrides) for run in runs]
    return _begun(client, resumed, detach=detach, quiet=quiet, json=json, where=where)


def fork(
    client: Client,
    run: str,
    overrides: Given,
    at: str,
    name: str | None,
    detach: bool,
    quiet: bool,
    json: bool,
    where: str,
) -> int:
    (parent, *others) = of_word(client, run)
    if others:
        raise UserError(f"{run}: {len(others) + 1} runs have this name; give the id of one of them")
    child = client.runs.fork(parent["id"], overrides or (), at=at, name=name)
    return _begun(client, [child], detach=detach, quiet=quiet, json=json, where=where)


def _begun(client: Client, runs: Sequence[RunDocument], *, detach: bool, quiet: bool, json: bool, where: str) -> int:
    out = stdout()
    if not detach and not json and not quiet:
        return next((code for run in runs if (code := _followed(client, run["id"], where))), 0)
    if not detach:
        runs = [client.runs.wait(run["id"]) for run in runs]
    if json:
        out.document(runs)
    else:
        for run in runs:
            line = f"run {run['id']}: {run['state']}; follow it with: rlctl logs -f {run['id']}{where}"
            out.line(run["id"] if quiet else line)
    return 0 if detach else next((code for run in runs if (code := exit_code(run))), 0)


def _followed(client: Client, run_id: str, where: str) -> int:
    out = stdout()
    ending = f"stop it with: rlctl stop {run_id}{where}"
    out.line(f"run {run_id}: is with {client.address}; leave with Ctrl-C, it goes on; {ending}")
    out.flush()
    run = follow_run(client, run_id, out)
    out.line(f"run {run_id}: {run['state']}{': ' + run['message'] if run['message'] else ''}")
    return exit_code(run)


def exit_code(run: RunDocument) -> int:
    return CODES.get(run["reason"], CODES.get(run["state"], 1)) if run["state"] != "COMPLETED" else 0


def stop(client: Client, words: Given, states: Given, envs: Given, algos: Given, tags: Given, where: str) -> None:
    runs = selected(client, words, states, envs, algos, tags)
    going = [run for run in runs if run["state"] in OWNED or run["state"] == RunState.QUEUED]
    group = is_group(words, (states, envs, algos, tags), runs)
    for run in going if group and going else runs:
        waits = group and run["state"] == RunState.QUEUED
        after = _ended(client, run, client.runs.pause if waits else client.runs.stop, where)
        again = "" if after["state"] == "COMPLETED" else f"; go on with: rlctl resume {after['id']}{where}"
        stdout().line(f"run {after['id']}: {after['state']} at {after['env_steps']:,} steps{again}")


def pause(client: Client, run: str, json: bool, where: str) -> None:
    (one, *others) = of_word(client, run)
    if others:
        raise UserError(f"{run}: {len(others) + 1} runs have this name; give the id of one of them")
    after = _ended(client, one, client.runs.pause, where)
    if json:
        stdout().document(after)
        return
    again = f"; back to its place in the queue with: rlctl resume {after['id']}{where}" if after["paused"] else ""
    state = "paused" if after["paused"] else after["state"]
    stdout().line(f"run {after['id']}: {state} at {after['env_steps']:,} steps{again}")


def cancel(client: Client, words: Given, states: Given, envs: Given, algos: Given, tags: Given, where: str) -> None:
    runs = selected(client, words, states, envs, algos, tags)
    open_states = {*OWNED, RunState.QUEUED, RunState.INTERRUPTED}
    going = [run for run in runs if run["state"] in open_states]
    for run in going if going and is_group(words, (states, envs, algos, tags), runs) else runs:
        after = _ended(client, run, client.runs.cancel, where)
        stdout().line(f"run {after['id']}: {after['state']} at {after['env_steps']:,} steps")


def _ended(client: Client, run: RunDocument, ask: Callable[[str], RunDocument], where: str) -> RunDocument:
    after = ask(run["id"])
    if after["state"] in OWNED:
        after = client.runs.wait(run["id"], STOP_SECONDS)
    if after["state"] in OWNED:
        raise RLStudioError(
            f"run {run['id']}: was asked to stop and is still there after {STOP_SECONDS:g} s; look again with:"
            f" rlctl show {run['id']}{where}"
        )
    return after


def queue(client: Client, json: bool, where: str) -> None:
    from rlstudio.cli.screen.run_table import print_queue

    document = client.queue()
    if json:
        stdout().document(document)
    else:
        print_queue(stdout(), document, where)
