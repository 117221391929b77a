"""What a terminal or a dashboard shows of a Rollout, as values: read from objects, and followed while they change."""
