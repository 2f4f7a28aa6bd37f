"""Sign-in to HTTP servers (OAuth 2.1)."""
