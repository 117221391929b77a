"""The controllers of a cluster: ReplicaSets, kubelet, EndpointSlices, garbage collector, autoscaler."""
