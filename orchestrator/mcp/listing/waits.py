"""How long requests wait for servers that are listed for the first time, in `serve` and in workers alike."""

LISTING_WAIT_S = 5.0
"""Seconds that a request waits for servers that are still being listed. Temporal ends a Nexus operation after 10 s."""
STILL_LISTED = "it is still being listed; try again soon"
"""The reason why the tools of such a server were not searched."""
