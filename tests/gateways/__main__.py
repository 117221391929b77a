"""`python -m tests.gateways [PYTEST ARGUMENT...]`: the tests of this folder, on a real node in namespaces of its own.

As `python -m tests.node`, which this is made of; besides it builds the gateways that the selected tests are about (Envoy Gateway,
Traefik, Contour) and Prometheus for those who count, and fetches Envoy.
"""

from __future__ import annotations

import contextlib
import os
import sys

from tests.gateways.envoy_gateway import CERTIFICATES
from tests.gateways.selection import NotCollected, gateways_of, programs_of, selected
from tests.lab import binaries, gateway_parts
from tests.node import __main__ as node
from tests.node import machine


def main() -> int:
    """The exit code of pytest."""
    arguments = sys.argv[1:] or ["tests/gateways"]
    try:
        tests = selected(arguments)
    except NotCollected as reason:
        print(reason, file=sys.stderr)
        return reason.code
    try:
        machine.prepare()
        programs = (*binaries.PROGRAMS, *binaries.NODE_PROGRAMS, *programs_of(tests))
        binaries.build_missing(programs=programs)
        gateway_parts.prepare(gateways_of(tests))
    except (machine.NodeUnavailable, binaries.LabUnavailable) as reason:
        print(f"gateways: skipped: {reason}", file=sys.stderr)
        return 1 if os.environ.get("ROLLOUTS_LAB_REQUIRED") else 0
    made = not CERTIFICATES.exists()
    CERTIFICATES.mkdir(exist_ok=True)  # a place to mount at; what is mounted is seen from inside only
    try:
        return node.run_inside(arguments)
    finally:
        if made:
            with contextlib.suppress(OSError):
                CERTIFICATES.rmdir()


if __name__ == "__main__":
    sys.exit(main())
