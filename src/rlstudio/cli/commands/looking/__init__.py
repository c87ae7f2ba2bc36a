"""Commands that look at what runs did, and change nothing."""
