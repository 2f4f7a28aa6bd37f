"""Refiners: each takes a ranking and returns a ranking."""
