"""This process, the machine it runs on, and what is installed there."""
