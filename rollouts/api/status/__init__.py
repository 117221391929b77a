"""Converts `.status` to JSON and back, without loss."""
