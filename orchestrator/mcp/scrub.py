"""Secrets kept out of errors, logs, listings and results: what an `mcpServers` entry brought in is masked."""

import json
import logging
import re
from collections.abc import Iterable
from typing import Self
from urllib.parse import quote, urlsplit

MASK = "***"

_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|auth|cred|cookie|session|private", re.IGNORECASE)
_SCHEMES = frozenset({"basic", "bearer", "digest", "negotiate", "token"})
_PLACE = re.compile(r"[~./\\]|[a-z]+://|[A-Za-z]:\\")
_SHORTEST = 4
# What a random credential looks like: shorter or plainer values (a time zone, a user's name) stay readable in results.
_SHORTEST_GUESSED = 8


class Secrets:
    """Masks of one server's secrets.

    `scrub` is for errors and logs and masks every value that the entry's `env` and `headers` hold; `scrub_result` is
    for what a tool answers, where a folder's name has to stay readable: it masks only what is or looks like a secret.
    """

    __slots__ = ("_all", "_strong")

    def __init__(self, values: Iterable[str] = (), strong: Iterable[str] = ()) -> None:
        certain = {form for value in strong for form in _forms(value)}
        self._strong = _pattern(certain)
        self._all = _pattern(certain | {form for value in values for form in _forms(value)})

    def scrub(self, text: str) -> str:
        return self._all.sub(MASK, text) if self._all else text

    def scrub_result(self, text: str) -> str:
        return self._strong.sub(MASK, text) if self._strong else text

    def __repr__(self) -> str:
        return "Secrets(...)"


def looks_secret(name: str, value: str, *, expanded: bool) -> bool:
    """Whether a value must not even stand in a result: by its variable's name, or as a random text from outside."""
    if _SECRET_NAME.search(name):
        return True
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return expanded and len(value) >= _SHORTEST_GUESSED and mixed and not _PLACE.match(value)


def header_secrets(value: str) -> list[str]:
    """The parts of a header's value that must not be shown: all but the name of the scheme."""
    return [value, *(part for part in value.split() if part.lower() not in _SCHEMES)]


def url_secrets(url: str) -> list[str]:
    """Passwords, and what stands behind `=` in the query."""
    parts = urlsplit(url)
    values = [item.partition("=")[2] for item in parts.query.split("&")]
    return [value for value in (parts.password, *values) if value]


def _forms(value: str) -> set[str]:
    """The value as it stands, inside JSON, and inside a URL."""
    value = value.strip()
    if len(value) < _SHORTEST:
        return set()
    return {value, json.dumps(value)[1:-1], quote(value, safe="")}


def _pattern(values: set[str]) -> re.Pattern[str] | None:
    # Longest first, so that no value is masked only up to a shorter one's end.
    ordered = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


class LogFilter(logging.Filter):
    """Masks secrets in what the MCP and HTTP libraries log while a connection is open."""

    LOGGERS = ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher", "client", "httpx2")

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._secrets.scrub(record.getMessage()), ()
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_info, record.exc_text = None, self._secrets.scrub(text)
        return True

    def __enter__(self) -> Self:
        for name in self.LOGGERS:
            logging.getLogger(name).addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.LOGGERS:
            logging.getLogger(name).removeFilter(self)
