"""Templates and runs of analyses: wire → core."""
