"""An index of a run's metrics: names at once, curves of chosen names in milliseconds, however long the run is."""
