"""Ranks: processes that learn one policy together, each from environments of its own (`runtime.learners`).

Rank 0 is the process of the run. It does everything a run does beside learning (metrics, evaluation, gates, guardrails,
checkpoints), and tells the others step by step what to do (`commands`): what it decides, they need not decide alike.
While a step is computed, all ranks meet in the collective operations of their `Group`.
"""
