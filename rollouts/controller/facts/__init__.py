"""What the controller knows about the cluster as a whole, not about one Rollout."""
