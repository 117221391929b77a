"""TrafficProviders: watched, judged, and offered to Rollouts."""
