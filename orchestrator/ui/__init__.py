"""`toolroute ui`: pages on loopback that show Decisions, tools, servers, experience and runs."""
