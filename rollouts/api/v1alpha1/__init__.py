"""The types of the wire, `rollouts.dev/v1alpha1`; CRDs are generated from them."""
