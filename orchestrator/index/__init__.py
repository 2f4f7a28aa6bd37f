"""Builds the searchable index of one tenant's catalogue."""
