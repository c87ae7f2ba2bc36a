"""What tests of ranks share."""

from support.ranks import thread_ranks

__all__ = ["thread_ranks"]
