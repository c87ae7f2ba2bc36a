"""Pure functions on tensors and arrays: returns, schedules, statistics; the Optimizer on flat storage."""
