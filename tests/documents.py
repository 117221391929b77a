"""YAML as tests read it: by libyaml, as the CRDs alone take the reader in Python a second."""

from __future__ import annotations

from typing import Any

import yaml


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML stream, without the empty ones. Raises: yaml.YAMLError."""
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
