"""Models that plans are made in: dynamics, values, the denoiser of trajectories."""
