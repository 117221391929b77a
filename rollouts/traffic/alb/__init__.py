"""AWS load balancers, through the annotations of an Ingress."""
