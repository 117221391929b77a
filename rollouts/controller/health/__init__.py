"""What the process says of itself over HTTP."""
