"""Endpoints of models: how one is named to people, and why none of its answers came."""

from urllib.parse import urlsplit

_UNANSWERED = {"APIConnectionError": "the connection failed", "APITimeoutError": "it took too long"}


def address(url: str) -> str:
    """An endpoint's address for people: without a password or a key that stands in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def unanswered(error: Exception) -> str:
    """Why a request had no answer at all, in words where they are known."""
    return _UNANSWERED.get(type(error).__name__, type(error).__name__)
