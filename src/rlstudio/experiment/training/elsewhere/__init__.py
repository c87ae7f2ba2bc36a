"""Runs that train beyond their own process: the parts of `scale` as the config asks for them."""
