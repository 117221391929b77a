"""A Rollout as people see it, as values: read from objects and followed while they change."""
