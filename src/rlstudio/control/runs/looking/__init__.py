"""Views of runs: rows, documents, curves. Nothing here changes a run."""
