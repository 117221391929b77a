"""What is seen of one Rollout at one instant."""
