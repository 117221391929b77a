"""AWS load balancers, by the annotations of an Ingress."""
