"""What is new, as it happens: one poll of each run and of the store, however many listen."""
