"""Evaluation, gates and guardrails."""
