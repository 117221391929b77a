"""Debian's packages that a tier of tests needs: installed by apt, where that asks for nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from tests.lab.processes import run

INSTALLED_WITHIN_S = 600


def install(packages: Sequence[str], *, tier: str) -> str:
    """Installs them, as root or by a sudo that asks for no password; why that failed, or "". `tier` is for who waits."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if as_root and shutil.which("sudo") is None:
        return "it needs root or sudo"
    print(f"{tier}: installing {', '.join(packages)}", file=sys.stderr, flush=True)
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
        done = run(*as_root, "apt-get", *words, env=settings, within_s=INSTALLED_WITHIN_S, code=None)
    return "" if done.returncode == 0 else done.stderr[-2000:]
