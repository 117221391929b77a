"""The process's health and metrics over HTTP."""
