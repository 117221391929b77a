"""The simulated data plane: proxies, gateways and clients."""
