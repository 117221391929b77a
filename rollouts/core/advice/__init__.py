"""What in a manifest or in the cluster loses requests or changes shares, with the remedy."""
