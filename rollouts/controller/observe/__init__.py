"""Observes one Rollout at one instant."""
