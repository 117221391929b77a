"""The wheels that the lock files name, kept between runs: pip takes longer to read the index for them than to install them."""

from __future__ import annotations

import fcntl
import hashlib
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.lab.binaries import BUILT_WITHIN_S, cache_folder
from tests.lab.processes import run

NO_NETWORK = re.compile(r"NewConnectionError|NameResolutionError|Max retries exceeded|Network is unreachable")
_ROOT = Path(__file__).parent.parent.parent
_LOCKS = (_ROOT / "requirements.lock", _ROOT / "requirements-build.lock")


@cache
def instead_of_the_index() -> Mapping[str, str]:
    """Environment variables with which the pip of this Python takes the wheels from here; it compares their hashes all the same.

    When a lock file has changed the index is asked for them; without a network the test is skipped.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in _LOCKS)).hexdigest()[:12]
    folder = cache_folder().parent / f"wheels-{version}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = Path(f"{folder}.new")
            locked = [word for lock in _LOCKS for word in ("-r", str(lock))]
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
            pip += ["--require-hashes", "--only-binary", ":all:", "--dest", str(part), *locked]
            done = run(*pip, within_s=BUILT_WITHIN_S, code=None)
            if NO_NETWORK.search(done.stderr):
                pytest.skip(f"the package index cannot be reached: {done.stderr[-300:]}")
            assert done.returncode == 0, done.stderr
            part.rename(folder)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
