"""From environment steps to Batches."""
