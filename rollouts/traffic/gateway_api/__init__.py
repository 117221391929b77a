"""Routes of the Gateway API."""
