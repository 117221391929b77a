"""Analysis: metrics, what was measured, and the verdict that follows. Pure; no provider is known here."""
