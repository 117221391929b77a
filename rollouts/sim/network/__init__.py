"""What brings requests to pods: simulated proxies, gateways and clients."""
