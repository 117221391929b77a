"""Canary Ingresses of ingress-nginx."""
