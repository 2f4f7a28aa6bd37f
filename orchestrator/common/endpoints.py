"""Endpoints of models: their addresses and errors as people may read them."""

from urllib.parse import urlsplit

from orchestrator.common.redact import Secrets, url_secrets

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "no key for OpenAI: set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint"
_UNANSWERED = {
    "APIConnectionError": "the connection failed",
    "APITimeoutError": "it took too long",
    "AnswerTooLong": "its answer is too long",
    "RecursionError": "its answer is nested too deep",
}


def address(url: str) -> str:
    """Return an endpoint's address without passwords and keys, including those in its path."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    return secrets_of(url, None).redact(shown)


def secrets_of(url: str, key: str | None) -> Secrets:
    """Return an endpoint's key and the secrets of its address, which no error and no log may show."""
    return Secrets([*filter(None, [key]), *url_secrets(url)])


def complaint(error: Exception, secrets: Secrets) -> str:
    """Return the endpoint's own error message after a colon, without secrets, or ""."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return f": {secrets.redact(message)[:300]}" if isinstance(message, str) else ""


def unanswered(error: Exception) -> str:
    """Return the reason why a request got no answer."""
    names = (type(cause).__name__ for cause in (error.__cause__, error))
    return next((_UNANSWERED[name] for name in names if name in _UNANSWERED), type(error).__name__)
