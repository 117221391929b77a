"""What all tests share: the fixtures of the real control plane (`control_plane`, `namespace`, `controller_kubeconfig`)."""

pytest_plugins = ["tests.lab.pytest_plugin"]
