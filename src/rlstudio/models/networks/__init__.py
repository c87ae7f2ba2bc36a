"""Networks without a meaning of their own: MLP, CNN, memories, ensembles, the normalizer."""
