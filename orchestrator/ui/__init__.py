"""`toolroute ui`: pages on loopback that show a person what routing decides, knows and runs."""
