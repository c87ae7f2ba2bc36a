"""The runs that the words and filters of a command mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlstudio.core.errors import UserError

if TYPE_CHECKING:
    from rlstudio.control.runs.select import Filters
    from rlstudio.control.workspace import Entry, Workspace

Given = Sequence[str] | None


@dataclass(frozen=True)
class Selection:
    """What was given: words (`RUN`) and the values of `--state`, `--env`, `--algo` and `--tag`."""

    words: Given = None
    states: Given = None
    envs: Given = None
    algos: Given = None
    tags: Given = None

    @property
    def filters(self) -> Filters:
        from rlstudio.control.runs.select import Filters

        return Filters(self.states or (), self.envs or (), self.algos or (), self.tags or ())

    def entries(self, workspace: Workspace) -> tuple[Entry, ...]:
        from rlstudio.control.runs.select import select

        return select(workspace, self.words or (), self.filters)

    def acting_on(self, workspace: Workspace) -> tuple[Entry, ...]:
        """To act on them: runs whose process is gone are recorded first."""
        workspace.reap()
        return self.entries(workspace)

    def is_group(self, entries: Sequence[Entry]) -> bool:
        """Whether more is meant than the runs that were named one by one: then a run that needs nothing done is left
        alone, and not a mistake."""
        return bool(self.filters) or len(entries) > len(set(self.words or ()))

    def only_one(self, entries: Sequence[Entry], why: str) -> Entry:
        if len(entries) > 1:
            raise UserError(f"{why}: {len(entries)} runs are selected ({entries[0].id}, ...); name one of them")
        return entries[0]
