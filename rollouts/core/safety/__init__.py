"""What no write may break, whatever the strategy."""
