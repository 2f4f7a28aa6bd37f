"""Endpoints of models: addresses and errors in a form that people may see."""

from urllib.parse import urlsplit, urlunsplit

from orchestrator.common.lines import as_json, one_line
from orchestrator.common.redact import Secrets, url_secrets

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "no key for OpenAI: set OPENAI_API_KEY, or set OPENAI_BASE_URL to another endpoint"
_MOST_READ = 10_000
"""The characters of an endpoint's message in which secrets are searched."""
_LONGEST_COMPLAINT = 300
"""The characters of an endpoint's message in an error. An endpoint may repeat the request in it."""
_UNANSWERED = {
    "APIConnectionError": "the connection failed",
    "APITimeoutError": "the answer took too long",
    "AnswerTooLong": "the answer is too long",
    "RecursionError": "the answer is nested too deeply",
}


def address(url: str) -> str:
    """Return an endpoint's address without a password or a key, also in its path."""
    parts = urlsplit(url)
    without_user = urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")
    ).rstrip("/")
    return secrets_of(url, None).redact(without_user)


def is_header_text(text: str) -> bool:
    """Return True if a header can have this text: ASCII without control characters, and without blanks at its ends."""
    return text.isascii() and text.isprintable() and text == text.strip()


def secrets_of(url: str, key: str | None) -> Secrets:
    """Return an endpoint's key and the secrets in its address. No error and no log may show them."""
    return Secrets([*filter(None, [key]), *url_secrets(url)])


def complaint(error: Exception, secrets: Secrets) -> str:
    """Return the endpoint's own message after a colon, without secrets. Otherwise empty."""
    message = getattr(error, "body", None)
    if isinstance(message, dict):
        message = message.get("message") or message.get("detail")
    if not message:
        return ""
    text = message if isinstance(message, str) else as_json(message)
    if text.startswith("<"):  # A page of a proxy.
        return ""
    return f": {one_line(secrets.redact(text[:_MOST_READ]), _LONGEST_COMPLAINT)}"


def unanswered(error: Exception) -> str:
    """Return the reason for a missing answer, in words if it is known."""
    for cause in (error.__cause__, error):
        name = type(cause).__name__
        if name in _UNANSWERED:
            return _UNANSWERED[name]
    return type(error).__name__
