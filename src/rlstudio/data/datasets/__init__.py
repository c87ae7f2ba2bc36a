"""Recorded episodes in Minari files, read as a source."""
