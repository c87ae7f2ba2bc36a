"""Redraws the panel while no Tick comes, so that a person sees a long rollout or an evaluation go on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlstudio.cli.screen.live.panel import LivePanel
    from rlstudio.cli.screen.live.progress import Progress
    from rlstudio.experiment.run.session import Session

PAUSE_SECONDS = 0.3
STOPPING = "stopping at the next safe point; Ctrl-C again leaves at once"


class Redraw:
    """`with Redraw(panel, progress, session): ...`, while that thread trains."""

    def __init__(self, panel: LivePanel, progress: Progress, session: Session) -> None:
        self._panel, self._progress, self._session = panel, progress, session
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw_on, name="panel", daemon=True)

    def __enter__(self) -> Redraw:
        self._panel.show(self._progress)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._progress.doing = ""  # the panel stays: it says how the run ended
        self._panel.show(self._progress)

    def _draw_on(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            self.draw(time.monotonic())

    def draw(self, now: float) -> None:
        """Nothing where a Tick was drawn within the last pause."""
        if now - self._progress.updated_at >= PAUSE_SECONDS:
            stopping = STOPPING if self._session.signals.received is not None else ""
            self._progress.between(now, stopping or self._session.evaluations.under_way)
            self._panel.show(self._progress)
