"""Secrets kept out of errors, logs, listings and results: what a server's or an endpoint's settings hold is masked."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self
from urllib.parse import quote, unquote

from orchestrator.records.secrets import SWITCHES, is_plain

MASK = "***"

_SHORTEST = 4


class Secrets:
    """Masks of one server's, or one endpoint's, secrets.

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

    def scrub_json(self, value: Any) -> Any:
        """A decoded JSON value with `scrub_result` of every text in it, names included; numbers stay as they are."""
        if self._strong is None:
            return value
        if isinstance(value, str):
            return self.scrub_result(value)
        if isinstance(value, list):
            return [self.scrub_json(item) for item in value]
        if isinstance(value, dict):
            return {self.scrub_result(name): self.scrub_json(item) for name, item in value.items()}
        return value

    def __repr__(self) -> str:
        return "Secrets(...)"


def _forms(value: str) -> set[str]:
    """The value as it stands, its lines, as variables have keys also on one line, and all inside JSON and a URL."""
    lines = (value.replace("\\n", "\n") if "-----BEGIN" in value else value).splitlines()
    whole = {value.strip(), *map(str.strip, lines), unquote(value.strip())}
    long = {text for text in whole if len(text) >= _SHORTEST and text.lower() not in SWITCHES}
    return {form for text in long for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))}


def _pattern(values: set[str]) -> re.Pattern[str] | None:
    # Longest first, so that no value is masked only up to a shorter one's end.
    ordered = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join(map(_written, ordered))) if ordered else None


def _written(value: str) -> str:
    """A plain word only where it is one (the password `post` is no part of `postgres`), also behind what stands for
    another character in JSON or a URL. Looked at behind the word: so the pattern begins with a letter, and is quick."""
    if not (value.isalpha() and is_plain(value)):
        return re.escape(value)
    return rf"{value}(?![^\W\d_])(?:(?<![^\W\d_]{value})|(?<=\\[nrt]{value})|(?<=%[0-9A-Fa-f]{{2}}{value}))"


class LogFilter(logging.Filter):
    """Masks secrets in what the MCP and HTTP libraries log while a connection is open, or a request under way."""

    LOGGERS = (
        *(f"mcp.client.{module}" for module in ("caching", "client", "stdio", "streamable_http")),
        *(f"mcp.shared.{module}" for module in ("dispatcher", "jsonrpc_dispatcher")),
        *(f"httpcore2.{module}" for module in ("connection", "http11", "http2", "proxy", "socks")),
        *("client", "httpx2"),
    )

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
        self._replace(lambda filters: [*filters, self])
        return self

    def __exit__(self, *_: object) -> None:
        self._replace(lambda filters: [kept for kept in filters if kept is not self])

    def _replace(self, change: Callable[[list[Any]], list[Any]]) -> None:
        """Another list, not the same one changed: a thread that goes through it would pass over a filter."""
        with _FILTERS:
            for name in self.LOGGERS:
                logger = logging.getLogger(name)
                logger.filters = change(logger.filters)


_FILTERS = threading.Lock()
