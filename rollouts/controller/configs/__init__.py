"""ConfigMaps and Secrets that pod templates name: watched, read for the hashes of their contents, and copied for revisions."""
