"""Runs pure functions in a process of its own, which has a limit of CPU time and memory and can be ended."""
