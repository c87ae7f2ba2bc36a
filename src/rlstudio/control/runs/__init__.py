"""Runs that the store knows: started, resumed, stopped, forked, adopted, removed."""
