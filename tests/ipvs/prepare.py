"""`python -m tests.ipvs.prepare`: installs what is missing by apt, where that asks for nothing, and builds the programs.

Ends with 0 also where something cannot be had: the tests are skipped then and say why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.ipvs import guest_machine
from tests.lab import binaries

_ASK_NOTHING = {"DEBIAN_FRONTEND": "noninteractive"}


def main() -> None:
    """Installs and builds; says what could not be done."""
    missing = guest_machine.missing_packages()
    if missing and not _install(missing):
        print(f"ipvs: {', '.join(missing)} cannot be installed here; the tests will be skipped", file=sys.stderr)
        return
    try:
        binaries.build_missing(programs=guest_machine.PROGRAMS)
    except binaries.LabUnavailable as reason:
        print(f"ipvs: {reason}", file=sys.stderr)


def _install(packages: list[str]) -> bool:
    """Whether apt has installed them; as root, or by a sudo that asks for no password."""
    if shutil.which("apt-get") is None:
        return False
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if as_root and shutil.which("sudo") is None:
        return False
    print(f"ipvs: installing {', '.join(packages)}", file=sys.stderr)
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            [*as_root, "apt-get", *command],
            env={**os.environ, **_ASK_NOTHING},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            return False
    return not guest_machine.missing_packages()


if __name__ == "__main__":
    main()
