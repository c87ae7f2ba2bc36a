"""The folder of a run: where it lies, its status, who may write into it."""
