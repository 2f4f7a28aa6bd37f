"""Frozen records that pass Temporal's default converter as they are."""
