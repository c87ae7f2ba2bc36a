"""What a token may do. Apart from the rest, so that the command line lists tokens without the web framework."""

from enum import StrEnum


class Role(StrEnum):
    READ = "read"  # GET and HEAD
    ACT = "act"  # everything
