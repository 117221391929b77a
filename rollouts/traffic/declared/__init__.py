"""A router that a TrafficProvider declares in paths and CEL."""
