"""What `toolroute serve` keeps for each connected client."""
