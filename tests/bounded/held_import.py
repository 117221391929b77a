"""A module whose import lasts until somebody opens the other end of a pipe, as on a node without a free core."""

import os
from pathlib import Path

from tests.bounded.functions import PIPE

Path(os.environ[PIPE]).read_text(encoding="ascii")
