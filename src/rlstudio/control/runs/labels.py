"""What a user says about runs: tags to find them by, and a note. The store keeps them; no running run is disturbed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlstudio.control.runs.adopt import adopt
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import UserError

TAG = re.compile(r"\w[\w.:+-]{0,63}")
LONGEST_NOTE = 10_000


def tag_runs(workspace: Workspace, entries: Iterable[Entry], tag: str, *, remove: bool = False) -> list[RunRow]:
    """Give every run the tag, or take it away; one that has it, or has it not, stays as it is."""
    check_tags([tag])
    rows = []
    for run in (_listed(workspace, entry) for entry in entries):
        others = [known for known in run.tags if known != tag]
        rows.append(workspace.store.annotate(run.id, tags=others if remove else [*others, tag]))
    return rows


def check_tags(tags: Iterable[str]) -> None:
    for tag in tags:
        if not TAG.fullmatch(tag):
            raise UserError(
                f"tag {tag[:100]!r}: use 1 to 64 letters, digits, _ . : + or - (and a letter or digit first)"
            )


def write_note(workspace: Workspace, entries: Iterable[Entry], note: str) -> list[RunRow]:
    """Replace the note of every run; an empty one removes it."""
    if len(note) > LONGEST_NOTE:
        raise UserError(f"note: has {len(note):,} characters; give at most {LONGEST_NOTE:,}")
    return [workspace.store.annotate(_listed(workspace, entry).id, note=note) for entry in entries]


def _listed(workspace: Workspace, entry: Entry) -> RunRow:
    return entry.run if entry.run is not None else adopt(workspace, entry.folder)
