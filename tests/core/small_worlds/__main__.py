"""`python -m tests.core.small_worlds [NAME…]` explores small worlds, by default the quick ones, and prints a line each."""

from __future__ import annotations

import sys

from tests.core.small_worlds.paths import as_a_test
from tests.core.small_worlds.search import FoundError, explored, told
from tests.core.small_worlds.world_list import ALL, QUICK

for name in sys.argv[1:] or QUICK:
    try:
        print(told(name, explored(ALL[name])), flush=True)
    except FoundError as found:
        sys.exit(as_a_test(name, found))
