"""A Snapshot in the form that the rules use: the roles of its ReplicaSets, facts that many rules need, and waits."""
