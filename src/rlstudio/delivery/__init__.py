"""From a trained agent to what ships: bundle, graphs, parity."""
