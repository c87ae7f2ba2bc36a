"""What rows of a rollout are checked for before learning sees them."""
