"""The controllers of a cluster: Deployments, ReplicaSets, kubelet, EndpointSlices, garbage collector, autoscaler."""
