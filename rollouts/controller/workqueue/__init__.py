"""Finds the Rollouts that a change or an answer concerns, and schedules their next passes."""
