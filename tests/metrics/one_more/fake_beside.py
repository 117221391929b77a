"""A plugin of pytest: the fake of this folder lies where those of servers that are built in lie."""

from __future__ import annotations

from pathlib import Path

import tests.metrics.servers

tests.metrics.servers.__path__.append(str(Path(__file__).parent / "fake"))
