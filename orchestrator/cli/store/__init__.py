"""The command `toolroute store`."""
