"""What `rlctl --help` says: every command on one screen of 80 x 40, by what a person wants to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

GISTS = {
    "launch": "start a run",
    "run": "start one from a file",
    "resume": "go on, or extend",
    "fork": "a child of a run",
    "sweep": "search settings",
    "stop": "end runs, resumable",
    "pause": "keep a place in line",
    "cancel": "end runs for good",
    "queue": "what runs and waits",
    "worker": "serve the queue",
    "cluster": "look at a cluster",
    "ls": "list runs",
    "show": "one run, or a group",
    "logs": "events and metrics",
    "plot": "learning curves",
    "compare": "groups side by side",
    "report": "one page of all that",
    "variance": "how many seeds",
    "diff": "what sets runs apart",
    "metrics": "as CSV or Parquet",
    "profile": "where a second goes",
    "send": "to MLflow, W&B, ...",
    "reproduce": "the same once more",
    "rewind": "stand at a past step",
    "eval": "mean and interval",
    "play": "film a policy",
    "record": "write a dataset",
    "tournament": "who beats whom",
    "export": "a bundle of a policy",
    "serve-policy": "actions over HTTP",
    "import": "a model of SB3",
    "serve": "API and dashboard",
    "token": "who may call it",
    "promote": "into a stage",
    "rollback": "the version before",
    "models": "versions of policies",
    "tag": "find runs by a tag",
    "note": "write on a run",
    "adopt": "take folders in",
    "replay": "whose rows it holds",
    "rm": "delete runs",
    "gc": "delete by a policy",
    "backup": "store and registry",
    "migrate": "upgrade old files",
    "algos": "the algorithms",
    "envs": "the environments",
    "presets": "ready experiments",
    "zoo": "trained policies",
    "schema": "every setting",
    "init": "write a file to edit",
    "check": "try an environment",
    "doctor": "before it trains",
    "plugins": "parts of packages",
}
"""Of each command what fits beside another one; its own help says more."""

OPTIONS = """\
Options:
  --server URL --token-file FILE --ca-file FILE   Runs of a server instead.
  --install-completion, --show-completion         Tab completion for the shell.
  --version, --help                               rlctl COMMAND --help: more.
"""
COLUMNS = 2
TITLE, NAME, GIST = 9, 13, 22


def command_lines(sections: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Two commands a line, with the title of their section before the first."""
    for title, commands in sections.items():
        cells = [f"{name:<{NAME}}{GISTS[name]:<{GIST}}" for name in commands]
        for start in range(0, len(cells), COLUMNS):
            yield f"{title if start == 0 else '':<{TITLE}}{''.join(cells[start : start + COLUMNS])}".rstrip()
