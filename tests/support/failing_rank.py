"""A rank that cannot build its part."""

import sys

from rlstudio.core.errors import EnvFault
from rlstudio.scale.ranks.follower import serve


def build(group, plan):
    raise EnvFault("env 1: it broke") if plan["kind"] == "fault" else ZeroDivisionError("division by zero")


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], build))
