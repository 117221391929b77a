"""Certificates that vouch for themselves, for servers of tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def write_certificate(certificate: Path, key: Path, *, names: str) -> None:
    """Writes a P-256 certificate and its key, both PEM.

    Args:
        names: whom it is for, in openssl's words: `DNS:localhost,IP:127.0.0.1`.

    Raises: subprocess.CalledProcessError, with what openssl said.
    """
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "30", "-subj", "/CN=test", "-addext", f"subjectAltName={names}"),
            *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
