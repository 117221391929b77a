"""The simulated API server's HTTP interface: verbs, lists, watches, discovery."""
