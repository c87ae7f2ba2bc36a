"""From the JSON of a request to arrays that fit the spaces: every number is checked before the policy gets it.

One observation or a list of them; for a dict space, an object with an entry for each name. A refusal is one line that
names the field.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlstudio.core.contracts import Array
from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space
from rlstudio.delivery.ports import Port

MOST_COUNTED = 10**9


class BadInput(UserError):
    """The request does not fit the policy."""


class Parsed(NamedTuple):
    observations: Array
    carry: dict[str, np.ndarray] | None
    rows: int
    single: bool  # one observation, not a batch of one


def parse_request(body: object, space: Space, carried: tuple[Port, ...], max_batch: int) -> Parsed:
    if not isinstance(body, dict):
        raise BadInput("body: must be an object with `observations`")
    if unknown := sorted(map(str, set(body) - {"observations", "carry"})):
        raise BadInput(f"{unknown[0][:60]}: unknown field; a request has `observations` and `carry`")
    if "observations" not in body:
        raise BadInput("observations: missing; give one observation or a list of them")
    given = body["observations"]
    if isinstance(space, Dict):
        entries = _entries(given, space)
        counts = {name: _rows(entries[name], entry, f"observations.{name}") for name, entry in space.items()}
        if len(set(counts.values())) > 1:
            first, *others = counts.items()
            other = next((name, rows) for name, rows in others if rows != first[1])
            raise BadInput(
                f"observations.{other[0]}: has {_count_text(other[1])}, observations.{first[0]} {_count_text(first[1])}"
            )
        count = next(iter(counts.values()))
        observations: Array = {name: rows[None] if count is None else rows for name, rows in entries.items()}
    else:
        rows = _array(given, space, "observations")
        count = _rows(rows, space, "observations")
        observations = rows[None] if count is None else rows
    batch = 1 if count is None else count
    if not 1 <= batch <= max_batch:
        raise BadInput(f"observations: {batch} rows; between 1 and {max_batch} are accepted")
    return Parsed(observations, _carry(body.get("carry"), carried, batch, count is None), batch, count is None)


def _entries(given: object, space: Dict) -> dict[str, np.ndarray]:
    if not isinstance(given, dict):
        raise BadInput(f"observations: must be an object with {', '.join(name for name, _ in space.items())}")
    known = {name for name, _ in space.items()}
    if unknown := sorted(map(str, set(given) - known)):
        raise BadInput(f"observations.{unknown[0][:60]}: unknown entry; the space has {', '.join(sorted(known))}")
    if missing := sorted(known - set(given)):
        raise BadInput(f"observations.{missing[0]}: missing")
    return {name: _array(given[name], entry, f"observations.{name}") for name, entry in space.items()}


def _array(given: object, space: Leaf, field: str) -> np.ndarray:
    """Numbers of the space's dtype, finite, and within the range of an integer space."""
    numbers = _numbers(given, field)
    if isinstance(space, Box) and space.dtype != "uint8":
        with np.errstate(over="ignore"):
            floats: np.ndarray = numbers.astype(space.dtype)
        if not np.isfinite(floats).all():
            raise BadInput(f"{field}: must be finite numbers that fit {space.dtype}")
        return floats
    if numbers.dtype.kind == "f" and not (np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all()):
        raise BadInput(f"{field}: must be whole numbers")
    low, high = _range(space)
    if ((numbers < low) | (numbers > high)).any():
        bounds = f"0 to {high}" if np.ndim(high) == 0 else f"0 to {np.asarray(high).tolist()}"
        raise BadInput(f"{field}: must be within {bounds}")
    return numbers.astype(space.dtype)


def _range(space: Leaf) -> tuple[int, int | np.ndarray]:
    match space:
        case Box():
            return 0, 255
        case Discrete():
            return 0, space.n - 1
        case MultiDiscrete():
            return 0, np.asarray(space.nvec) - 1


def _numbers(given: object, field: str) -> np.ndarray:
    try:
        # As objects first: of texts NumPy would make an array in which each has the room of the longest.
        values = np.asarray(given, dtype=object)
    except ValueError as error:
        raise BadInput(f"{field}: is not a regular array") from error
    if not values.size:
        raise BadInput(f"{field}: is empty")
    kinds = set(map(type, values.reshape(-1)))
    if not kinds <= {int, float}:
        raise BadInput(f"{field}: {'is not a regular array' if list in kinds else 'must be numbers'}")
    try:
        return values.astype(np.float64 if float in kinds else np.int64)
    except OverflowError as error:
        raise BadInput(f"{field}: must be numbers of at most 64 bits") from error


def _rows(array: np.ndarray, space: Leaf, field: str) -> int | None:
    """How many rows it has; None for one observation without a batch axis."""
    if array.shape == space.shape:
        return None
    if array.shape[1:] == space.shape and array.ndim == len(space.shape) + 1:
        return len(array)
    raise BadInput(f"{field}: has shape {list(array.shape)}, expected [rows, {', '.join(map(str, space.shape))}]")


def _count_text(rows: int | None) -> str:
    return "one observation" if rows is None else f"{rows} rows"


def _carry(given: object, ports: tuple[Port, ...], batch: int, single: bool) -> dict[str, np.ndarray] | None:
    if given is None:
        return None
    if not ports:
        raise BadInput("carry: this policy remembers nothing; leave it out")
    if not isinstance(given, dict) or set(given) != {port.part for port in ports}:
        raise BadInput(f"carry: must be an object with exactly {', '.join(port.part for port in ports)}")
    held = {}
    for port in ports:
        rows = _carried(_numbers(given[port.part], f"carry.{port.part}"), port)
        rows = rows[None] if single and rows.shape == port.shape else rows
        if rows.shape != (batch, *port.shape):
            raise BadInput(f"carry.{port.part}: has shape {list(rows.shape)}, expected {[batch, *port.shape]}")
        if not np.isfinite(rows).all():
            raise BadInput(f"carry.{port.part}: must be finite numbers")
        held[port.part] = rows
    return held


def _carried(numbers: np.ndarray, port: Port) -> np.ndarray:
    """Numbers of the port's dtype. Whole ones (the age of an episode, choices) are counted from 0."""
    if port.dtype == "int64" and (numbers.dtype.kind == "f" or ((numbers < 0) | (numbers > MOST_COUNTED)).any()):
        raise BadInput(f"carry.{port.part}: must be whole numbers within 0 to {MOST_COUNTED}")
    return numbers.astype(port.dtype)
