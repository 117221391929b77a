"""Experiments: pods beside everything else for a while, and the analyses that judge them."""
