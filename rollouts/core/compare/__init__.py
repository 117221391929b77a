"""Canary against stable: what two arms have shown so far, and when that is enough. Pure; no provider is known here."""
