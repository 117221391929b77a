"""`spec` as the API server gives it to core values: defaults, rules, and what is refused."""
