"""Policies that Stable-Baselines3 trained, read without pickle."""
