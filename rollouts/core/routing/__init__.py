"""Where requests go: the Services, the routes and the split of traffic between two revisions."""
