"""Keys, tokens and kubeconfigs of a control plane that lives for one test run."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # SEC 2, section 2.4.2


def write_signing_key(path: Path) -> None:
    """Writes a fresh P-256 private key (SEC 1 PEM), with which the API server signs ServiceAccount tokens.

    The optional public part is left out (RFC 5915 section 3); Go derives it. So no cryptography library is needed.
    """
    secret = (secrets.randbelow(_P256_ORDER - 1) + 1).to_bytes(32, "big")
    der = bytes.fromhex("3031020101" + "0420") + secret + bytes.fromhex("a00a" + "06082a8648ce3d030107")
    text = base64.encodebytes(der).decode().strip()
    _write_private(path, f"-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n")


def write_tokens(path: Path, *names: str) -> tuple[str, ...]:
    """Writes a token file with administrators of these names and returns their tokens."""
    tokens = tuple(secrets.token_hex(16) for _ in names)
    lines = [f"{token},{name},{name},system:masters\n" for token, name in zip(tokens, names, strict=True)]
    _write_private(path, "".join(lines))
    return tokens


def write_kubeconfig(path: Path, *, url: str, certificate: Path, token: str, user: str, namespace: str) -> Path:
    """Writes a kubeconfig with one user and returns its path. JSON is YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": url, "certificate-authority": str(certificate)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user, "namespace": namespace}}],
        "current-context": "lab",
    }
    _write_private(path, json.dumps(config, indent=1))
    return path


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
