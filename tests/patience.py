"""How long tests wait for what comes in a moment on a machine of their own."""

PATIENCE_S = 60.0  # after this it hangs; nothing that a test measures depends on it
