"""`rollouts dashboard`: pages of a browser on this machine, with the rights of whoever started it."""
