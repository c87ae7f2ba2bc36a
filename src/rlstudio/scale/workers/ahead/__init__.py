"""Asynchronous workers: they collect while the learner learns, and what they collected says with which weights."""
