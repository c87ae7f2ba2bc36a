"""Prioritised replay: rows that surprised more are drawn more often.  Schaul et al. 2016 (1511.05952), proportional.

    P(i) = p_i^alpha / sum_k p_k^alpha        p_i = |error_i| + eps        w_i = (N P(i))^-beta / max_j w_j

N is the number of rows that can be drawn, the maximum is over the sample. A new row has the highest priority seen so
far, so each is soon drawn once; a row that the ring overwrites leaves with its slot.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import PriorityPlan, State
from rlstudio.data.replay.numbering import Numbering
from rlstudio.ops.schedules import linear

ROW_BYTES = 32
"""What a row's place in the tree takes at most: leaves up to the next power of two, and their sums."""


class SumTree:
    """Non-negative values of `slots` leaves and their sums in a binary tree: setting and finding take log(slots) array
    operations for a whole batch. Sums depend on the leaves alone, so a tree built again from them is the same bits."""

    def __init__(self, slots: int) -> None:
        self.first = 1 << max(slots - 1, 1).bit_length()  # index of leaf 0; node i has the children 2i and 2i + 1
        self.depth = self.first.bit_length() - 1
        self.slots = slots
        self.nodes = np.zeros(2 * self.first)

    @property
    def total(self) -> float:
        return float(self.nodes[1])

    @property
    def leaves(self) -> np.ndarray:
        """The values, as a view."""
        return self.nodes[self.first : self.first + self.slots]

    def set(self, slots: np.ndarray, values: np.ndarray | float) -> None:
        """Give leaves new values. A slot may come twice only with the same value."""
        nodes, at = self.nodes, slots + self.first
        nodes[at] = values
        for _ in range(self.depth):
            at = at >> 1
            left = at << 1
            nodes[at] = nodes[left] + nodes[left + 1]

    def find(self, mass: np.ndarray) -> np.ndarray:
        """For each number in [0, total) the leaf whose stretch holds it, leaves laid end to end; never an empty one."""
        nodes, at = self.nodes, np.ones(len(mass), np.int64)
        for _ in range(self.depth):
            at = at << 1
            left = nodes[at]
            # Rounding may leave a number at the very end of its stretch: what lies to the right of it may be empty.
            right = (mass >= left) & (nodes[at + 1] > 0)
            mass = mass - left * right
            at = at + right
        return at - self.first


class Priorities:
    """The priorities of the rows of a ring, of which a row can be drawn once its whole window of `horizon` steps is
    there. They are kept to float32, which a checkpoint holds to the bit."""

    def __init__(self, numbering: Numbering, horizon: int, plan: PriorityPlan) -> None:
        self.numbering = numbering
        self.horizon = horizon
        self.plan = plan
        self.beta = plan.beta
        self.slots = numbering.capacity
        self.tree = SumTree(self.slots)
        self.highest = 1.0  # p^alpha of the most surprising row so far
        self.counts = np.zeros(numbering.num_envs, np.int64)  # rows of each environment that are known here
        self.added = 0  # together

    def progress(self, fraction: float) -> None:
        """The share of the run that is done."""
        self.beta = linear(self.plan.beta, self.plan.beta_end, fraction)

    def extend(self) -> None:
        """Look at the ring: forget the rows that it overwrote, admit those whose window is complete by now."""
        numbering, later = self.numbering, self.horizon - 1
        if self.added == numbering.added:
            return
        complete = np.maximum(numbering.counts - later, 0)
        admitted = numbering.between(np.maximum(self.counts - later, numbering.oldest()), complete)
        waiting = numbering.between(np.maximum(self.counts, complete), numbering.counts)
        self.counts, self.added = numbering.counts.copy(), numbering.added
        self.tree.set(admitted % self.slots, self.highest)
        self.tree.set(waiting % self.slots, 0.0)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers, one from each of `count` equal stretches of the total, and their importance weights."""
        tree = self.tree
        if tree.total <= 0.0:
            raise ValueError(f"replay holds {len(self.numbering)} rows, no window of {self.horizon} steps among them")
        slots = tree.find((np.arange(count) + generator.random(count)) * (tree.total / count))
        values = tree.leaves[slots]
        weights = (values / values.min()) ** -self.beta  # N and the total stand in every weight: they cancel
        return self.numbering.newest_at(slots, self.slots), weights.astype(np.float32)

    def feedback(self, numbers: np.ndarray, errors: np.ndarray) -> None:
        """New priorities by the absolute errors of drawn rows. Rows that are gone and errors that are not finite
        are passed over; of a row that was drawn twice the larger error counts."""
        usable = self.numbering.holds(numbers) & np.isfinite(errors)
        if not usable.any():
            return
        values = ((np.abs(errors[usable]) + self.plan.eps) ** self.plan.alpha).astype(np.float32).astype(np.float64)
        slots, where = np.unique(numbers[usable] % self.slots, return_inverse=True)
        largest = np.zeros(len(slots))
        np.maximum.at(largest, where, values)
        self.tree.set(slots, largest)
        self.highest = max(self.highest, float(largest.max()))

    def state_dict(self) -> State:
        """`extend` has seen every row: it is called before each sample and within the warm-up, and nothing is collected
        after it."""
        values = self.tree.leaves[self.numbering.held() % self.slots].astype(np.float32)
        return {"added": self.added, "highest": self.highest, "values": values}

    @staticmethod
    def without_rows(state: State) -> State:
        """A state of these priorities as if no row had been added; `highest` stays, for the rows to come."""
        return {**state, "added": 0, "values": np.zeros(0, np.float32)}

    def load_state_dict(self, state: State) -> None:
        """After the ring has its rows back."""
        self.counts, self.added = self.numbering.counts.copy(), int(state["added"])
        self.highest = float(state["highest"])
        self.tree.nodes[:] = 0.0
        self.tree.set(self.numbering.held() % self.slots, np.asarray(state["values"], np.float64))
