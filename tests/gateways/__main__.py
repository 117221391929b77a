"""`python -m tests.gateways [PYTEST ARGUMENT...]`: the tests of this folder, on a real node in namespaces of its own.

As `python -m tests.node`, which this is made of; besides it builds the gateways that the selected tests are about (Envoy Gateway,
Traefik, Contour) and Prometheus for those who count, and fetches Envoy.
"""

from __future__ import annotations

import contextlib
import sys

from tests.gateways.envoy_gateway import CERTIFICATES
from tests.gateways.selection import NotCollected, gateways_of, programs_of, selected
from tests.lab import binaries
from tests.node import __main__ as node


def main() -> int:
    arguments = sys.argv[1:] or ["tests/gateways"]
    try:
        tests = selected(arguments)
    except NotCollected as reason:
        print(reason, file=sys.stderr)
        return reason.code
    programs = (*binaries.PROGRAMS, *binaries.NODE_PROGRAMS, *programs_of(tests))
    code = node.prepared("gateways", programs, {"gateway-api", *gateways_of(tests)})
    if code is not None:
        return code
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
