"""`cluster status`: the nodes of a Ray cluster and our jobs in Slurm, and which runs are where."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlstudio.cli.arguments.options import Json
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.core.errors import UserError

if TYPE_CHECKING:
    from rlstudio.control.queue.slurm import Job

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def cluster() -> None:
    """Show the cluster on which runs are started."""


@app.command()
def status(
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Head of the Ray cluster; auto: as for a run.")
    ] = "auto",
    json: Json = False,
) -> None:
    """Show the nodes of a Ray cluster with their free resources and runs, and our jobs in Slurm's queue."""
    from rlstudio.control.queue import ray_cluster
    from rlstudio.control.queue.slurm import list_jobs

    has_ray, has_slurm = ray_cluster.is_known(address), shutil.which("squeue") is not None
    if not has_ray and not has_slurm:
        raise UserError(
            "no cluster is known here: there is no squeue on the PATH, and no Ray; start one (docs/howto/cluster.md),"
            " or name it with --address HOST:PORT or RAY_ADDRESS"
        )
    nodes, waiting = _ray_nodes(address) if has_ray else ([], [])
    jobs = list_jobs() if has_slurm else []
    out = stdout()
    if json:
        out.document({"nodes": nodes, "waiting": waiting, "jobs": [vars(job) for job in jobs]})
        return
    if has_ray:
        _print_nodes(out, nodes, waiting)
    if has_slurm:
        _print_jobs(out, jobs)


def _ray_nodes(address: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The nodes with their runs, and the runs that wait for one."""
    from rlstudio.control.queue import ray_cluster

    ray = ray_cluster.connect(address)
    free, runs = ray_cluster.free(ray), ray_cluster.runs_by_node(ray)
    nodes = [
        {
            "id": node.id,
            "host": node.host,
            "address": node.address,
            "total": vars(node.total),
            "free": vars(free.get(node.id, ray_cluster.NOTHING)),
            "runs": runs.get(node.id, []),
        }
        for node in ray_cluster.nodes(ray)
    ]
    return nodes, runs.get("", [])


def _print_nodes(out: Terminal, nodes: list[dict[str, Any]], waiting: list[str]) -> None:
    rows = []
    for node in nodes:
        amounts = [f"{node['free'][kind]:g} of {node['total'][kind]:g}" for kind in ("cpus", "gpus")]
        memory = f"{node['free']['memory'] / 2**30:.1f} of {node['total']['memory'] / 2**30:.1f}"
        rows.append([node["id"][:8], node["host"], *amounts, memory, " ".join(node["runs"]) or "-"])
    out.table(["node", "host", "cpus free", "gpus free", "GiB free", "runs"], rows)
    for run_id in waiting:
        out.line(f"run {run_id}: waits in Ray for a node with room", "yellow")


def _print_jobs(out: Terminal, jobs: list[Job]) -> None:
    if jobs:
        out.table(["job", "state", "nodes", "run"], [[job.id, job.state, job.nodes, job.run_id] for job in jobs])
    else:
        out.line("no job of ours is in Slurm's queue")
