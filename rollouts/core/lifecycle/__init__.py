"""What every strategy shares: updates, commands, the progress clock, conditions, housekeeping."""
