"""`rollouts demo`: rollouts in a simulated or a real cluster."""
