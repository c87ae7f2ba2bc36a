"""`cluster status`: the nodes of a Ray cluster, what is left of them, and which runs are where."""

from __future__ import annotations

from typing import Annotated

import typer

from rlstudio.cli.arguments.options import Json
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def cluster() -> None:
    """Look at the cluster that runs are started in."""


@app.command()
def status(
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Head of the Ray cluster; auto: as for a run.")
    ] = "auto",
    json: Json = False,
) -> None:
    """Show the nodes of a Ray cluster, what is left of them, and which runs are where."""
    from rlstudio.control.queue import ray_cluster

    if not ray_cluster.is_known(address):
        raise UserError(
            "no Ray cluster is known here; start one with `ray start --head`, or name it with RAY_ADDRESS or --address"
            " HOST:PORT"
        )
    ray = ray_cluster.connect(address)
    nodes, free, runs = ray_cluster.nodes(ray), ray_cluster.free(ray), ray_cluster.runs_by_node(ray)
    out = stdout()
    if json:
        documents = [
            {
                "id": node.id,
                "host": node.host,
                "address": node.address,
                "total": vars(node.total),
                "free": vars(free.get(node.id, ray_cluster.NOTHING)),
                "runs": runs.get(node.id, []),
            }
            for node in nodes
        ]
        out.document({"nodes": documents, "waiting": runs.get("", [])})
        return
    rows = []
    for node in nodes:
        left = free.get(node.id, ray_cluster.NOTHING)
        rows.append(
            [
                node.id[:8],
                node.host,
                f"{left.cpus:g} of {node.total.cpus:g}",
                f"{left.gpus:g} of {node.total.gpus:g}",
                f"{left.memory / 2**30:.1f} of {node.total.memory / 2**30:.1f}",
                " ".join(runs.get(node.id, [])) or "-",
            ]
        )
    out.table(["node", "host", "cpus free", "gpus free", "GiB free", "runs"], rows)
    for run_id in runs.get("", []):
        out.line(f"run {run_id}: waits in Ray for a node with room", "yellow")
