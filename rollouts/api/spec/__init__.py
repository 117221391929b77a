"""Turns the `spec` of the API server into core values: defaults, rules, and what is refused."""
