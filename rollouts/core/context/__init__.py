"""One Snapshot as the rules look at it: the roles of its ReplicaSets, facts that many rules ask for, and waits."""
