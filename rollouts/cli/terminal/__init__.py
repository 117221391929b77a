"""What a terminal shows, and the options that all commands share."""
