"""Runs one pass over one Rollout, and writes its status."""
