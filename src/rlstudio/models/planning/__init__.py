"""Models for planning: dynamics, values, the denoiser of trajectories."""
