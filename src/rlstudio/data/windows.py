"""WindowSource: pieces of several successive steps out of replay, for models of whole sequences."""

from __future__ import annotations

import numpy as np

from rlstudio.core.batch import Batch
from rlstudio.data.sources import ReplaySource


class WindowSource(ReplaySource):
    """As ReplaySource, with `horizon` successive rows in place of an n-step transition."""

    _known = 0

    def next(self) -> Batch:
        self._known = self.replay.added
        return super().next()

    def _draw(self, generator: np.random.Generator) -> Batch:
        return self.replay.windows(self.batch_size, generator, self.horizon)

    def fresh(self) -> Batch | None:
        """The rows that came with the last `next`, for statistics that count each row once; None where none did."""
        first = max(self._known, self.replay.oldest)
        if first == self.replay.added:
            return None
        return self.replay.at(np.arange(first, self.replay.added)).to(self.device)
