"""Training beyond one process: the parts of `scale` that the config asks for."""
