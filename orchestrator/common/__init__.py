"""Helpers without their own domain: redaction, digests, checked fields, lines of text, JSON input, tenants."""
