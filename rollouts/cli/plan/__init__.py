"""`rollouts plan`: what an update will do."""
