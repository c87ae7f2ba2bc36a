"""Fixtures of the fault tests."""

import os

import pytest


@pytest.fixture
def instant_sync(monkeypatch):
    """A kill does not need the disk, and a power cut is modelled: the sync is counted, the waiting left out."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
