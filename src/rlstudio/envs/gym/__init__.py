"""Gymnasium environments: made, checked and stepped in this process or in worker processes."""
