"""Frozen records. Temporal's default converter handles them unchanged."""
