"""One file is one algorithm: formula, config, trainer, loss."""
