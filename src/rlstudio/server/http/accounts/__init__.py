"""Signing in, named tokens and the audit log, as routes."""
