"""A simulated metrics-server: it scrapes the kubelets, and answers metrics.k8s.io as the real one does, or as a fault says."""
