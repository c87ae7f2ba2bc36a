"""What `rlctl --help` says: every command on one screen of 80 x 40, by what a person wants to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

GISTS = {
    "launch": "start a run",
    "run": "the same as launch -f",
    "resume": "continue or extend",
    "fork": "branch off a run",
    "sweep": "search settings",
    "stop": "stop, resume later",
    "pause": "stop, stay in queue",
    "cancel": "end runs for good",
    "queue": "what runs, what waits",
    "worker": "serve the queue",
    "cluster": "state of a cluster",
    "ls": "list runs",
    "show": "one run, or a group",
    "logs": "events and metrics",
    "plot": "learning curves",
    "compare": "statistics of groups",
    "report": "all in one HTML page",
    "variance": "spread over seeds",
    "diff": "settings that differ",
    "metrics": "as CSV or Parquet",
    "profile": "where time goes",
    "send": "to MLflow, W&B, ...",
    "reproduce": "rerun and compare",
    "rewind": "go to a past step",
    "eval": "score and interval",
    "play": "film a policy",
    "record": "write a dataset",
    "tournament": "play each other",
    "export": "bundle a policy",
    "serve-policy": "actions over HTTP",
    "import": "a policy from SB3",
    "serve": "API and dashboard",
    "token": "access for clients",
    "promote": "move to production",
    "rollback": "previous version",
    "models": "list versions",
    "tag": "label runs",
    "note": "annotate runs",
    "adopt": "take in run folders",
    "replay": "where rows come from",
    "rm": "delete runs",
    "gc": "delete old runs",
    "backup": "save the store",
    "migrate": "upgrade old files",
    "algos": "list algorithms",
    "envs": "list environments",
    "presets": "ready-made configs",
    "zoo": "trained policies",
    "schema": "every setting",
    "init": "write a starter file",
    "check": "test an environment",
    "doctor": "check before training",
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
