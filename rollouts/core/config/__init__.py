"""Configuration as a part of the revision: what a pod template reads it from, and the names that follow from its content."""
