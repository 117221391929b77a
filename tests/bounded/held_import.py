"""A module whose import lasts until somebody opens the other end of a pipe, as on a node without a free core."""

import os
from pathlib import Path

PIPE = "TESTS_BOUNDED_PIPE"

Path(os.environ[PIPE]).read_text(encoding="ascii")
