"""Commands that keep up what is stored."""
