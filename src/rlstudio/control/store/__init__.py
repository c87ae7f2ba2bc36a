"""What is remembered of all runs, and each change as one transaction."""
