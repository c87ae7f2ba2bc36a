"""A process that looks at its descriptors: `python -m support.given_files GIVEN OPEN...`.

It ends well where, all garbage gone, it reads `here` from the one it was given, and the others are open.
"""

import gc
import os
import sys

gc.collect()
given, *others = map(int, sys.argv[1:])
for number in others:
    os.fstat(number)
sys.exit(os.read(given, 4) != b"here")
