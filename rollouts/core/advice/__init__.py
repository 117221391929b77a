"""What in a manifest or in the cluster loses requests or bends shares, with the remedy."""
