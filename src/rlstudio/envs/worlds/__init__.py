"""Our own worlds: pure dynamics in array code, as a NumPy vector and as equations for planners."""
