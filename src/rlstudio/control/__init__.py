"""Many runs: the store, starting and resuming, the queue, sweeps, the registry."""
