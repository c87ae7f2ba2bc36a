"""Runs that the store knows: started, resumed, forked, adopted, removed."""
