"""RLStudio on another machine, from Python: every route of the HTTP API as a typed method.

    from rlstudio.client import Client

    with Client("https://train.example.org:8710") as client:
        run = client.launch(preset="ppo/cartpole", overrides=["train.lr=1e-3"])
        client.runs.wait(run["id"])
        client.runs.series(run["id"], ["eval/return_mean"])["series"]
        client.models.promote("cartpole", run["id"])

Answers are the documents of the command line with `--json`. What the server refuses is raised as the exception that it
is locally, with the same line. A request whose connection was lost is sent again under the same Idempotency-Key: it is
done once. The token comes from `RLSTUDIO_TOKEN` or a file that only its owner may read (see `token`). Plain http is for
this machine alone, other servers are called by https.
"""

from rlstudio.client.client import Client
from rlstudio.client.refusals import NotAllowed, ServerUnreachable

__all__ = ["Client", "NotAllowed", "ServerUnreachable"]
