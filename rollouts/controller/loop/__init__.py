"""One pass over one Rollout, and the status that it writes."""
