"""Experiments: their watches, their queue, one look at a time, and the writes that follow."""
