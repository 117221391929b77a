"""A plugin of pytest: the server of this folder lies where those that are built in lie."""

from __future__ import annotations

from pathlib import Path

from rollouts.core.analysis import servers

servers.__path__.append(str(Path(__file__).parent / "server"))
