"""The Deployment controller: one file each for its passes, the sizes it gives, its ReplicaSets and its status."""
