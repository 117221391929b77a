"""How the API server of the model world says no."""

from __future__ import annotations


class RefusedError(Exception):
    """The API server refuses a write: conflict, gone, or exists already."""
