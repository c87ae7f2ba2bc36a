"""RLStudio: reinforcement learning from a YAML file to a policy in production."""

__version__ = "0.1.0"
