"""Safe bytes on disk, knowing nothing of runs: folders, writers that sync, verified files, JSON lines, tensors."""
