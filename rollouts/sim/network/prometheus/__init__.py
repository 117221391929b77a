"""A simulated Prometheus: it scrapes simulated pods, keeps what it scraped, and answers a part of PromQL as the real one does."""
