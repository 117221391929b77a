"""How many pods each ReplicaSet has."""
