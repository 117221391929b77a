"""Istio's VirtualServices and DestinationRules."""
