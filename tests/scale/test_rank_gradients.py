"""Two ranks over gloo learn as one process does from their minibatches put together."""

import numpy as np
import pytest
import torch

from rlstudio.core.batch import Batch
from rlstudio.data.runtime import LocalRuntime
from rlstudio.scale.ranks.shared import digest, load, shared_state
from support.ranks import in_gloo_ranks
from support.runtimes import trainer_over, world

pytestmark = pytest.mark.own_process  # gloo is used here

UPDATES = 20
RELATIVE = 1e-6
SETTINGS = {
    "ppo": {"passes": 1},  # advantages are standardized over the rows of both
    "sac": {"n_step": 2},
    "dqn": {"n_step": 2, "prioritized": {}},
}


class Joined:
    """The noise of both ranks, side by side."""

    def __init__(self, *rngs) -> None:
        self.rngs = rngs

    def generator(self, number):
        self.number = number
        return self

    def standard_normal(self, shape, dtype):
        half = (shape[0], shape[1] // len(self.rngs), *shape[2:])
        return np.concatenate([rng.generator(self.number).standard_normal(half, dtype) for rng in self.rngs], 1)


@pytest.mark.parametrize("algo", SETTINGS)
def test_the_gradients_of_two_ranks_are_those_of_their_minibatches_put_together(algo, tmp_path):
    def learn(group):
        env = world(algo, seed=3 + group.rank)
        trainer = trainer_over(LocalRuntime(env, replay_capacity=256, group=group), algo, **SETTINGS[algo])
        done = []
        for update in range(UPDATES):
            before, batch = _as_loaded(shared_state(trainer)), _weighted(trainer.source.next(), group.rank, update)
            trainer.update(batch)
            done.append((before, batch, _gradients(trainer), digest(trainer)))
        return trainer, done

    (first, mine), (second, yours) = in_gloo_ranks(tmp_path, 2, learn)
    rows = {"batch_size": 2 * first.cfg.batch_size}
    alone = trainer_over(LocalRuntime(world(algo, 4), replay_capacity=256), algo, **SETTINGS[algo], **rows)
    if hasattr(alone, "rng"):
        alone.rng = Joined(first.rng, second.rng)
    for update, ((before, one, gradients, held), (_, other, same, held_too)) in enumerate(
        zip(mine, yours, strict=True)
    ):
        assert held == held_too, f"the weights differ after update {update}"
        assert torch.equal(gradients, same)
        load(alone, before)
        alone.update(_together(one, other))
        error = (_gradients(alone) - gradients).norm() / gradients.norm()
        assert error <= RELATIVE, (update, float(error))
        assert gradients.norm() > 0


def _weighted(batch: Batch, rank: int, update: int) -> Batch:
    """Some rows of rank 1 weigh nothing, or half, in every third update."""
    if batch.weights is None:
        batch = batch.with_(weights=torch.ones(batch.shape))
    if rank and update % 3 == 0:
        weights = batch.weights.clone()
        weights.view(-1)[::4], weights.view(-1)[1::4] = 0.0, 0.5
        batch = batch.with_(weights=weights)
    return batch._map(torch.clone, len(batch.shape))


def _together(*batches: Batch) -> Batch:
    """The environments of a rollout, or the rows of a sample, side by side."""
    lead = len(batches[0].shape)
    columns = {name: torch.cat([getattr(batch, name) for batch in batches], lead - 1) for name in batches[0].names}
    return Batch(lead=lead, **columns)


def _gradients(trainer) -> torch.Tensor:
    return torch.cat([optimizer.flat.grad for optimizer in trainer.optimizers]).clone()


def _as_loaded(state):
    def plain(value):
        return value.numpy(force=True).copy() if isinstance(value, torch.Tensor) else value

    return {name: {key: plain(value) for key, value in part.items()} for name, part in state.items()}
