"""The relations between the tools of one catalogue."""
