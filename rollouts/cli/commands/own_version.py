"""Which version this program has."""

from __future__ import annotations


def own_version() -> str:
    """The version of this program; "unknown" in a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - most commands do not ask

    try:
        return version("rollouts-dev")
    except PackageNotFoundError:
        return "unknown"
