"""Helpers that belong to no domain: redaction, digests, checked fields, lines of text, JSON input and tenants."""
