"""What else is kept of runs: what went wrong, films, settings, where they come from."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html import escape

from rlstudio.control.report.content import ReportContent
from rlstudio.control.report.html import card, facts, folded, section, table
from rlstudio.core.format_values import size
from rlstudio.experiment.metrics.description import RunDescription

INCIDENTS = (
    "bad_rows",
    "checkpoint_rejected",
    "code_changed",
    "collapsed",
    "diverged",
    "env_restarted",
    "env_slow",
    "failed",
    "incident",
    "inexact",
    "interrupted",
    "metrics_damaged",
    "metrics_missing",
    "notify_failed",
    "observations_outside",
    "quarantined",
    "rank_lost",
    "replay_emptied",
    "resumed",
    "rolled_back",
    "sink_failed",
    "video_failed",
)
"""Events that are out of the ordinary; the rest is how every run goes."""

UNSAID = ("ts", "kind", "stack")
"""Fields of an event that are not among its details."""

OF_ONE_RUN = ("run", "created", "state hash")
"""What differs between any two runs."""

LISTED_INCIDENTS = 40
FILMS = {".mp4": "video/mp4", ".webp": "image/webp"}
MOST_FILM_BYTES = 24 << 20
"""Of all films of a page together; a page is to be sent by mail."""

_KEY = re.compile(r"^(\s*(?:- )?)([\w.\-/]+)(:)", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s)(#.*)$", re.MULTILINE)


def incidents(content: ReportContent) -> str:
    rows = [row for run in content.runs for row in _incidents(content, run.status.id)]
    rows.sort()
    if not rows:
        return section("Incidents", card('<p class="quiet">None: nothing was restarted, rolled back or left out.</p>'))
    head = ["when", "what", "details"] if content.only_run else ["when", "what", "details", "run"]
    listed = [row[: len(head)] for row in rows[:LISTED_INCIDENTS]]
    more = len(rows) - len(listed)
    rest = f'<p class="caption">and {more:,} more: rlctl logs RUN</p>' if more else ""
    return section("Incidents", card(table(head, listed), rest, kind="flow"))


def _incidents(content: ReportContent, run_id: str) -> Iterator[list[str]]:
    for event in content.events.get(run_id, ()):
        kind = str(event.get("kind"))
        if kind in INCIDENTS:
            fields = {name: value for name, value in event.items() if name not in UNSAID and value != ""}
            details = ", ".join(f"{name} {value}" for name, value in fields.items())
            yield [_moment(event.get("ts")), kind.replace("_", " "), details, run_id]


def _moment(seconds: object) -> str:
    if not isinstance(seconds, int | float) or not 0 <= seconds < 2**35:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def films(content: ReportContent) -> str:
    """Every film among the artifacts, as long as there is room, inside the page."""
    figures, left = [], MOST_FILM_BYTES
    for run in content.runs:
        origin = content.origins.get(run.status.id)
        for name, path in sorted(origin.artifacts().items()) if origin is not None else ():
            kind = FILMS.get(path.suffix.lower())
            if kind is None or (size := path.stat().st_size) > left:
                continue
            left -= size
            data = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
            film = (
                f'<video controls loop muted preload="metadata" src="{data}"></video>'
                if kind.startswith("video")
                else f'<img class="film" alt="film of the policy" src="{data}">'
            )
            whose = "" if content.only_run else f", {run.status.id}"
            figures.append(card(f"<figure>{film}<figcaption>{escape(name)}{escape(whose)}</figcaption></figure>"))
    return section("Films", f'<div class="grid-2">{"".join(figures)}</div>', kind="screen") if figures else ""


def settings(content: ReportContent) -> str:
    """The configuration of each group, secrets masked. Of several groups they are folded."""
    parts = []
    for group in content.groups:
        origin = next((content.origins[run.status.id] for run in group.runs if run.status.id in content.origins), None)
        if origin is None:
            continue
        text = f"<pre>{_coloured(origin.texts()['config.yaml'])}</pre>"
        parts.append(text if len(content.groups) == 1 else folded(group.label, text))
    return section("Configuration", card(*parts, kind="flow")) if parts else ""


def _coloured(yaml_text: str) -> str:
    text = _COMMENT.sub(r'\1<span class="c">\2</span>', escape(yaml_text, quote=False))
    return _KEY.sub(r'\1<span class="k">\2</span>\3', text)


def origins(content: ReportContent) -> str:
    """Versions, code, machine and command: of one run all of it, of several what they share and what differs."""
    described = [_origin(origin) for origin in content.origins.values()]
    if not described:
        return ""
    names = [*dict.fromkeys(name for each in described for name in each)]
    if len(described) > 1:
        names = [name for name in names if name not in OF_ONE_RUN]
    shared = {}
    for name in names:
        values = list(dict.fromkeys(str(each.get(name) or "") for each in described))
        shared[name] = values[0] if len(values) == 1 else f"{len(values)} different: {', '.join(values[:3])}"
    return section("Where it comes from", card(facts(shared)))


def _origin(origin: RunDescription) -> dict[str, object]:
    lineage, status = origin.lineage, origin.status
    return {
        "run": status.id,
        "created": status.created_at,
        "tags": ", ".join(origin.tags),
        "config hash": status.config_hash,
        "state hash": status.state_hash or "",
        "exact resume": "yes" if status.exact else f"no, {status.exact_reason}",
        "command": _command(lineage.get("command")),
        **{f"{name} version": value for name, value in _mapping(lineage.get("versions")).items()},
        **{f"commit of {name}": _commit(value) for name, value in _mapping(lineage.get("code")).items()},
        "host": lineage.get("host"),
        "platform": _words(lineage.get("platform")),
        **{f"hardware: {name}": _hardware(name, value) for name, value in _mapping(lineage.get("hardware")).items()},
    }


def _hardware(name: str, value: object) -> str:
    return size(value) if name == "memory" and isinstance(value, int) else _words(value)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _command(value: object) -> str:
    """As it can be typed."""
    return shlex.join(map(str, value)) if isinstance(value, list) else _words(value)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value if value is not None else "")


def _commit(value: object) -> str:
    commit = _mapping(value)
    return f"{commit.get('commit') or ''}{' with changes' if commit.get('dirty') else ''}"
