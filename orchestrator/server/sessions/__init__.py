"""The state of `toolroute serve` for each connected client."""
