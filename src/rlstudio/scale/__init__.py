"""Runtimes that live elsewhere: rollout workers in other processes or on Ray, learners as ranks of torch.distributed.

They keep the contracts of `core/contracts/data.py` (Runtime, DataSource, Group), so no algorithm knows of them;
`experiment/training` chooses one by the config.
"""
