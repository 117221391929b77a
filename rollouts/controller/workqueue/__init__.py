"""Which Rollout a change or an answer is about, and when its key gets its next pass."""
