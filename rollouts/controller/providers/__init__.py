"""Watches TrafficProviders, judges them, and offers them to Rollouts."""
