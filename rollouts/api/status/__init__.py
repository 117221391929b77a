"""`.status` to and from the wire, without loss."""
