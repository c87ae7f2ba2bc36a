"""What is told of runs: rows, documents, curves. Nothing here changes one."""
