"""DatasetSource: samples of a dataset that lies on disk. No environment is stepped.

Sample n is a pure function of the seed and n, so a resumed run draws the same rows; the rows themselves stay where they
are, and a checkpoint holds their fingerprint.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State, Tally
from rlstudio.core.errors import UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.datasets.minari_files import FIELD, read_replay
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.frames import FrameStore


class DatasetSource:
    """Uniform rows [N] of a dataset, or with a `horizon` windows [horizon, N], which count as one row each. It is read
    when the first sample is asked for: an agent that only acts needs no dataset."""

    def __init__(
        self,
        name: str,
        spaces: Spaces,
        rng: Rng,
        *,
        batch_size: int,
        horizon: int | None = None,
        best_share: float = 1.0,
        device: str = "cpu",
        ranks: int = 1,
    ) -> None:
        """`ranks`: so many processes each read as many rows."""
        self.name = name
        self.spaces = spaces
        self.rng = rng
        self.batch_size = batch_size
        self.horizon = horizon
        self.best_share = best_share
        self.device = device
        self.ranks = ranks
        self.samples = 0
        self.fingerprint = ""  # of the rows; empty until they are known
        self.last: Batch | None = None
        self._rows: ReplayBuffer | None = None

    @property
    def env_steps(self) -> int:
        """Counted as steps are the rows that were read for learning, so that epochs, schedules and checkpoints of a run
        without an environment go by how much it learned."""
        return self.samples * self.batch_size * self.ranks

    @property
    def size(self) -> int:
        """The rows stay where they are."""
        return 0

    def next(self) -> Batch:
        rows = self._read()
        if self.horizon is not None and len(rows) < self.horizon:
            raise UserError(
                f"{FIELD}: {self.name} has {len(rows)} rows, fewer than a window of planner.horizon {self.horizon}"
            )
        self.samples += 1
        generator = self.rng.generator(self.samples)
        if self.horizon is None:
            batch = rows.sample(self.batch_size, generator)
        else:
            batch = rows.windows(self.batch_size, generator, self.horizon)
        self.last = batch if self.device == "cpu" else batch.to(self.device)
        return self.last

    def fresh(self, horizon: int = 1) -> Batch:
        """All rows with the first sample, none later."""
        rows = self._read()
        last = rows.numbering.counts - (horizon - 1)
        first = rows.numbering.oldest() if self.samples == 1 else last
        return rows.at(rows.numbering.between(first, last), horizon).to(self.device)

    def following(self, rows: Tensor, steps: int) -> Batch:
        return self._read().at(rows.numpy(force=True) + steps).to(self.device)

    def after_warmup(self, rows: Tensor) -> Tensor:
        """There is none."""
        return torch.ones_like(rows, dtype=torch.bool)

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        """A dataset has no priorities."""

    def progress(self, fraction: float) -> None:
        """Nothing is explored."""

    def take(self) -> Tally:
        """No episode is played."""
        return Tally([], [], 0, {}, {})

    def _read(self) -> ReplayBuffer:
        if self._rows is None:
            rows = read_replay(self.name, self.spaces, self.best_share)
            fingerprint = _fingerprint(rows)
            if self.fingerprint not in ("", fingerprint):
                raise UserError(f"{FIELD}: {self.name} is not what this run began with; put back the rows it had")
            self._rows, self.fingerprint = rows, fingerprint
        return self._rows

    def state_dict(self) -> State:
        return {"samples": self.samples, "fingerprint": self.fingerprint}

    def load_state_dict(self, state: State) -> None:
        self.samples = int(state["samples"])
        self.fingerprint = str(state["fingerprint"])
        self._rows = None


def _fingerprint(rows: ReplayBuffer) -> str:
    digest = hashlib.sha256(rows.store.rows.tobytes())
    if isinstance(rows.store, FrameStore):
        digest.update(rows.store.frames.tobytes())
        digest.update(rows.store.lasts.tobytes())
    return digest.hexdigest()
