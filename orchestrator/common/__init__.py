"""Helpers without a domain of their own: redaction, digests, checked fields, lines of text, JSON input, tenants."""
