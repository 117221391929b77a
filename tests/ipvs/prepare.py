"""`python -m tests.ipvs.prepare`: installs what is missing by apt, where that asks for nothing, and builds the programs.

Ends with 0 also where something cannot be had: the tests are skipped then and say why.
"""

from __future__ import annotations

import sys

from tests.ipvs import guest_machine
from tests.lab import binaries, packages


def main() -> None:
    """Installs and builds; says what could not be done."""
    missing = guest_machine.missing_packages()
    if missing and (packages.install(missing, tier="ipvs") or guest_machine.missing_packages()):
        print(f"ipvs: {', '.join(missing)} cannot be installed here; the tests will be skipped", file=sys.stderr)
        return
    try:
        binaries.build_missing(programs=guest_machine.PROGRAMS)
    except binaries.LabUnavailable as reason:
        print(f"ipvs: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
