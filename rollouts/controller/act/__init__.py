"""Turns a Decision into calls, and sends them to the API server."""
