"""The store of all runs, in which each change is one transaction."""
