"""Objects as the simulated API server keeps them: kinds, validation, patches, field owners, history."""
