"""What every room may use: Batch, spaces, contracts, config, catalog, randomness, run states, errors."""
