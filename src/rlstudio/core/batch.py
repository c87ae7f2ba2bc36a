"""Batch: named columns with shared leading dimensions, the only thing that travels between collecting and learning.

A rollout has two leading dimensions [T, B] (row t is transition t), a sample has one [N]. A column is a tensor, or a
dict of tensors for dict observations; `infos` is opaque (a list of N entries or a dict of such lists).

A Batch never changes: `with_` gives a new one that shares the columns. It is born per rollout or per sample, never per
environment step: building one per step costs more than the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Column = Tensor | dict[str, Tensor]
Infos = Sequence[object] | Mapping[str, Sequence[object]]


class Batch:
    """Named columns that share their leading dimensions, [T, B] or [N]; row t is transition t."""

    __slots__ = ("_arrays", "_columns", "_flat", "infos", "lead")

    def __init__(self, *, lead: int = 1, infos: Infos | None = None, **columns: Column | None) -> None:
        """Columns given as None are absent. `lead` is the number of leading dimensions all columns share."""
        if "dones" in columns:
            raise ValueError("dones is derived (terminated or truncated); give those two columns instead")
        self._columns: dict[str, Column] = {name: column for name, column in columns.items() if column is not None}
        self.lead = lead
        self.infos = infos
        self._flat: Batch | None = None
        self._arrays: dict[str, np.ndarray | dict[str, np.ndarray]] = {}
        self._check()

    def _check(self) -> None:
        if not self._columns:
            raise ValueError("a Batch needs at least one column")
        shapes = {label: tuple(tensor.shape[: self.lead]) for label, tensor in self._tensors()}
        if len(set(shapes.values())) > 1 or any(len(shape) < self.lead for shape in shapes.values()):
            listing = ", ".join(f"{label} {shape}" for label, shape in shapes.items())
            raise ValueError(f"columns must share their first {self.lead} dimension(s): {listing}")
        if self.infos is not None:
            for entries in self.infos.values() if isinstance(self.infos, Mapping) else [self.infos]:
                if len(entries) != len(self):
                    raise ValueError(f"infos has {len(entries)} entries for {len(self)} rows")

    def _tensors(self) -> Iterable[tuple[str, Tensor]]:
        for name, column in self._columns.items():
            if isinstance(column, dict):
                yield from ((f"{name}.{key}", tensor) for key, tensor in column.items())
            else:
                yield name, column

    @classmethod
    def _of(cls, columns: dict[str, Column], lead: int, infos: Infos | None = None) -> Batch:
        """Columns already known to agree: no check."""
        batch = object.__new__(cls)
        batch._columns, batch.lead, batch.infos, batch._flat, batch._arrays = columns, lead, infos, None, {}
        return batch

    def __reduce__(self) -> tuple[Callable[..., Batch], tuple[object, ...]]:
        """A copy has memory of its own, so no views of this one's."""
        return type(self)._of, (self._columns, self.lead, self.infos)

    # -- reading ----------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # never a column; and a copy asks before it has any
            raise AttributeError(name)
        try:
            return self._columns[name]
        except KeyError:
            pass
        raise AttributeError(f"this Batch has no column {name!r}; it has: {', '.join(self._columns)}")

    @property
    def dones(self) -> Tensor:
        """The episode ended at this row, by termination or by truncation."""
        return torch.logical_or(self.terminated, self.truncated)

    @property
    def weights(self) -> Tensor | None:
        """How much each row counts; None if all count the same."""
        return self._columns.get("weights")  # type: ignore[return-value]

    def get(self, name: str, default: Tensor) -> Tensor:
        """A column that may be missing."""
        column = self._columns.get(name, default)
        assert isinstance(column, Tensor)
        return column

    def array(self, name: str) -> np.ndarray | dict[str, np.ndarray]:
        """A column as a NumPy array over the same memory, made once. The block that every rollout is written into is
        one Batch, and a short rollout costs less than asking anew."""
        array = self._arrays.get(name)
        if array is None:
            column = getattr(self, name)
            array = {k: v.numpy() for k, v in column.items()} if isinstance(column, dict) else column.numpy()
            self._arrays[name] = array
        return array

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions."""
        first = next(iter(self._columns.values()))
        tensor = first if isinstance(first, Tensor) else next(iter(self._tensors()))[1]
        return tuple(tensor.shape[: self.lead])

    @property
    def device(self) -> torch.device:
        return next(iter(self._tensors()))[1].device

    def __len__(self) -> int:
        """Rows along the first dimension."""
        return self.shape[0]

    def only(self, names: Iterable[str]) -> dict[str, Column]:
        """These columns as keyword arguments: `model(**batch.only(model.reads))`."""
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        inner = ", ".join(f"{label}{list(tensor.shape)}" for label, tensor in self._tensors())
        return f"Batch({inner})"

    # -- deriving ---------------------------------------------------------------------------------------------------

    def _map(self, fn: Callable[[Tensor], Tensor], lead: int, infos: Infos | None = None) -> Batch:
        columns: dict[str, Column] = {
            name: {key: fn(tensor) for key, tensor in column.items()} if isinstance(column, dict) else fn(column)
            for name, column in self._columns.items()
        }
        return Batch._of(columns, lead, infos)

    def with_(self, **columns: Column) -> Batch:
        """A new Batch with these columns added or replaced; the others are shared, not copied."""
        return Batch(lead=self.lead, infos=self.infos, **{**self._columns, **columns})

    def without(self, *names: str) -> Batch:
        """A new Batch that leaves these columns out."""
        kept = {name: column for name, column in self._columns.items() if name not in names}
        return Batch._of(kept, self.lead, self.infos)

    def select(self, indices: Tensor | slice) -> Batch:
        """The rows at `indices` (integers, a boolean mask or a slice) along the first dimension."""
        infos: Infos | None = None
        if self.infos is not None:
            order = torch.arange(len(self))[indices].tolist()
            if isinstance(self.infos, Mapping):
                infos = {key: [entries[i] for i in order] for key, entries in self.infos.items()}
            else:
                infos = [self.infos[i] for i in order]
        if isinstance(indices, Tensor) and indices.dtype == torch.int64:
            rows = indices.to(self.device)
            return self._map(lambda tensor: tensor.index_select(0, rows), self.lead, infos)
        return self._map(lambda tensor: tensor[indices], self.lead, infos)

    def sequences(self, length: int) -> Batch:
        """[T, B] as [length, T / length * B]: each environment's rows in shorter pieces, side by side."""
        steps, envs = self.shape
        if steps % length:
            raise ValueError(f"{steps} steps cannot be cut into sequences of {length}")
        if steps == length:
            return self
        cut = (steps // length, length, envs)
        return self._map(lambda tensor: tensor.view(*cut, *tensor.shape[2:]).transpose(0, 1).flatten(1, 2), 2)

    def rolled(self, envs: int) -> Batch:
        """[N], the environments in turn, as [N / envs, envs]."""
        return self._map(lambda tensor: tensor.view(-1, envs, *tensor.shape[1:]), 2)

    def pick(self, indices: Tensor) -> Batch:
        """The environments or sequences at `indices` along the second dimension of [T, B]."""
        columns = indices.to(self.device)
        return self._map(lambda tensor: tensor.index_select(1, columns), self.lead)

    def flatten(self) -> Batch:
        """[T, B] rows as one dimension [T * B]; a sample stays as it is. Views, made once: a Batch never changes."""
        if self.lead == 1:
            return self
        if self._flat is None:
            self._flat = self._map(lambda tensor: tensor.flatten(0, self.lead - 1), 1)
        return self._flat

    def to(self, device: torch.device | str) -> Batch:
        """Columns on `device`; shared where they already are there."""
        return self._map(lambda tensor: tensor.to(device), self.lead, self.infos)

    @staticmethod
    def merge(batches: Sequence[Batch]) -> Batch:
        """Rows of all batches, one after the other, along the first dimension; they must have the same columns.

        For code of users: the architecture draft promises it (decision 0003), and RLStudio itself never calls it.
        """
        if not batches:
            raise ValueError("merge needs at least one Batch")
        first = batches[0]
        for other in batches[1:]:
            if set(other.names) != set(first.names) or other.lead != first.lead:
                raise ValueError(f"cannot merge {first!r} with {other!r}: the columns differ")

        def joined(name: str) -> Column:
            column = first._columns[name]
            if isinstance(column, dict):
                return {key: torch.cat([getattr(b, name)[key] for b in batches]) for key in column}
            return torch.cat([getattr(b, name) for b in batches])

        return Batch(lead=first.lead, infos=_joined_infos(batches), **{name: joined(name) for name in first.names})


def _joined_infos(batches: Sequence[Batch]) -> Infos | None:
    """None where one of them has none."""
    infos = [b.infos for b in batches if b.infos is not None]
    if len(infos) < len(batches):
        return None
    if isinstance(first := infos[0], Mapping):
        tables = [table for table in infos if isinstance(table, Mapping)]
        return {key: [entry for table in tables for entry in table[key]] for key in first}
    return [entry for entries in infos for entry in entries]
