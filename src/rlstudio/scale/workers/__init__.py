"""Rollout workers: processes or Ray actors that each act in a slice of the environments for one learner."""
