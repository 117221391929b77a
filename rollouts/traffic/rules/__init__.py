"""Parts that the codecs of several routers share."""
