"""What this process spends its time on, for the report of an epoch. It decides nothing."""

from __future__ import annotations


class Phases:
    """Seconds since the process began; whoever does the work adds them. Two clock readings for a rollout, a checkpoint
    or an evaluation cost nothing that could be measured."""

    collect = 0.0
    evaluate = 0.0
    checkpoint = 0.0


PHASES = Phases()
