"""What rank 0 tells the others to do, one command at a time: a header of fixed size, and bytes where it needs some."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch

from rlstudio.core.contracts import State
from rlstudio.scale.ranks.link import Link
from rlstudio.scale.ranks.messages import decode, encode


class Order(IntEnum):
    BUILD = 1  # a trainer: {"config": YAML, "attempt": which}; answered when it is there
    LOAD = 2  # the state of parts that all ranks share
    LOAD_OWN = 3  # the state of each rank's own parts, which follows for one rank after the other
    WARM_UP = 4  # collect at most `number` steps of the warm-up
    STEP = 5  # one learning step
    TAKE = 6  # answered with what there is to report
    STATE = 7  # answered with the state of its own parts; segments by their names
    SEGMENT = 8  # rank `number` answers with the columns of a segment: {"name": which}
    END = 9


class Command(NamedTuple):
    order: Order
    fraction: float = 0.0  # the share of the run that is done
    number: int = 0
    content: State | None = None


def send(link: Link, command: Command) -> None:
    data = b"" if command.content is None else encode(command.content)
    numbers = (float(command.order), command.fraction, float(command.number), float(bool(data)))
    link.share(torch.tensor(numbers, dtype=torch.float64))
    if data:
        link.share_bytes(data)


def receive(link: Link) -> Command:
    header = torch.zeros(4, dtype=torch.float64)
    link.share(header)
    order, fraction, number, has_content = header.tolist()
    content = decode(link.share_bytes(None)) if has_content else None
    return Command(Order(int(order)), fraction, int(number), content)
