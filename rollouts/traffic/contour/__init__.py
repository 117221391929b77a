"""HTTPProxies of Contour."""
