"""From a Decision to calls, and from calls to the API server."""
