"""A plugin of pytest: the server and the fake of this folder lie where those that are built in lie."""

from __future__ import annotations

from pathlib import Path

import tests.metrics.servers
from rollouts.core.analysis import servers

FOLDER = Path(__file__).parent

servers.__path__.append(str(FOLDER / "server"))
tests.metrics.servers.__path__.append(str(FOLDER / "fake"))
