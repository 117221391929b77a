"""What the codecs of several routers share."""
