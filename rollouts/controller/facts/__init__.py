"""What the controller knows of the cluster as a whole, not of one Rollout."""
