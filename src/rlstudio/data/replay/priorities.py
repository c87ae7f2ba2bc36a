"""Prioritised replay: rows that surprised more are drawn more often.  Schaul et al. 2016 (1511.05952), proportional.

    P(i) = p_i^alpha / sum_k p_k^alpha        p_i = |error_i| + eps        w_i = (N P(i))^-beta / max_j w_j

N is the number of rows that can be drawn, the maximum is over the sample. A new row has the highest priority seen so
far, so each is soon drawn once; a row that the ring overwrites leaves with its slot.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import State

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
    """The priorities of a ring of `slots` rows, of which a row can be drawn once `window` newer ones are there.

    `beta` is set by the trainer before each step. Priorities are kept to float32, which a checkpoint holds to the bit.
    """

    def __init__(self, slots: int, window: int, alpha: float, beta: float, eps: float) -> None:
        self.slots = slots
        self.window = window
        self.alpha = alpha
        self.beta = beta
        self.eps = eps
        self.tree = SumTree(slots)
        self.highest = 1.0  # p^alpha of the most surprising row so far
        self.added = 0

    @property
    def oldest(self) -> int:
        return max(self.added - self.slots, 0)

    def extend(self, added: int) -> None:
        """The ring now counts `added` rows: forget those it overwrote, admit those whose window is complete."""
        if added == self.added:
            return
        held, complete = max(added - self.slots, 0), max(added - self.window, 0)
        admitted = np.arange(max(self.added - self.window, held, 0), complete)
        waiting = np.arange(max(self.added, complete), added)
        self.added = added
        self.tree.set(admitted % self.slots, self.highest)
        self.tree.set(waiting % self.slots, 0.0)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers, one from each of `count` equal stretches of the total, and their importance weights."""
        tree = self.tree
        if tree.total <= 0.0:
            raise ValueError(f"replay holds {self.added - self.oldest} rows; windows need more than {self.window}")
        slots = tree.find((np.arange(count) + generator.random(count)) * (tree.total / count))
        values = tree.leaves[slots]
        weights = (values / values.min()) ** -self.beta  # N and the total stand in every weight: they cancel
        numbers = self.added - 1 - (self.added - 1 - slots) % self.slots  # the newest row that sits in the slot
        return numbers, weights.astype(np.float32)

    def feedback(self, numbers: np.ndarray, errors: np.ndarray) -> None:
        """New priorities by the absolute errors of drawn rows. Rows that are gone and errors that are not finite
        are passed over; of a row that was drawn twice the larger error counts."""
        usable = (numbers >= self.oldest) & np.isfinite(errors)
        if not usable.any():
            return
        values = ((np.abs(errors[usable]) + self.eps) ** self.alpha).astype(np.float32).astype(np.float64)
        slots, where = np.unique(numbers[usable] % self.slots, return_inverse=True)
        largest = np.zeros(len(slots))
        np.maximum.at(largest, where, values)
        self.tree.set(slots, largest)
        self.highest = max(self.highest, float(largest.max()))

    def state_dict(self) -> State:
        live = np.arange(self.oldest, self.added) % self.slots
        values = self.tree.leaves[live].astype(np.float32)
        return {"added": self.added, "highest": self.highest, "values": values}

    @staticmethod
    def without_rows(state: State) -> State:
        """A state of these priorities as if no row had been added; `highest` stays, for the rows to come."""
        return {**state, "added": 0, "values": np.zeros(0, np.float32)}

    def load_state_dict(self, state: State) -> None:
        self.added, self.highest = int(state["added"]), float(state["highest"])
        self.tree.nodes[:] = 0.0
        live = np.arange(self.oldest, self.added) % self.slots
        self.tree.set(live, np.asarray(state["values"], np.float64))
