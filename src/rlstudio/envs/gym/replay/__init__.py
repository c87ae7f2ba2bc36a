"""Putting plain envs back where they were: their actions, recorded and played again."""
