"""Live updates: one poll of each run and of the store, however many clients listen."""
