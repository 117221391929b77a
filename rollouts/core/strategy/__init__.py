"""Canary, blue-green, and the release of routes that the spec no longer names."""
