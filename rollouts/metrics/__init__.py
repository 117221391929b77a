"""What metrics ask and what the answers mean: a pure codec for each source, conditions, and measurements from evidence."""
