"""One pass: plain_q with one call of its Model for a whole update, instead of two."""

import torch

from my_parts.algo import PlainQ


class OnePass:
    """The lane."""

    def refuses(self, algo, cfg, network, runtime):
        return None if algo == "plain_q" else f"it computes plain_q only, not {algo}"

    def trainer(self, algo, cfg, runtime, network, rng):
        return OnePassPlainQ(cfg, runtime, network, rng)


class OnePassPlainQ(PlainQ):
    """The same state by the same names: a checkpoint of either goes on in the other."""

    def values(self, batch):
        return self.model(joined(batch.observations, batch.next_observations)).chunk(2)


def joined(rows, more):
    if isinstance(rows, dict):
        return {name: torch.cat((rows[name], more[name])) for name in rows}
    return torch.cat((rows, more))
