"""Measures the controller on a real control plane, beside Deployments as the floor. `python -m benchmarks --help`."""
