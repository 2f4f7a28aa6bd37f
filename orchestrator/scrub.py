"""Secrets kept out of errors, logs, listings and results: what a server's or an endpoint's settings hold is masked."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

MASK = "***"

_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|auth|cred|cookie|session|private", re.IGNORECASE)
_SETTING = re.compile(
    r"-*(max|min)[_-].*|.*[_-](type|mode|method|limit|timeout|ttl|count|size|length|port)|auth(source|mechanism)",
    re.IGNORECASE,
)
"""Names such as MAX_TOKENS, AUTH_TYPE and authSource: a number or a plain word there is none."""
_SWITCHES = frozenset({"true", "false", "none", "null", "enabled", "disabled"})
"""No secret wherever they stand; masked, they would garble every second schema and result."""
_PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_SCHEMES = frozenset({"basic", "bearer", "digest", "negotiate", "token"})
_PLACE = re.compile(r"[~./\\]|[a-z]+://|[A-Za-z]:\\")
_NAMED = re.compile(r"([\w-]+)[=:]\s*(.*)", re.DOTALL)
_URL = re.compile(r'(?=\b([A-Za-z][\w+.-]{0,30}://[^\s"]+))')
"""Also one within another, or behind a comma."""
_SHORTEST = 4
# What a random credential looks like: shorter or plainer values (a time zone, a user's name) stay readable in results.
_SHORTEST_GUESSED = 8
_SHORTEST_IN_PATH = 16


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


def looks_secret(name: str, value: str, *, expanded: bool) -> bool:
    """Whether a value must not even stand in a result: by its variable's name, or as a random text from outside."""
    if _names_secret(name, value):
        return True
    return expanded and len(value) >= _SHORTEST_GUESSED and _mixed(value) and not _PLACE.match(value)


def is_plain_word(value: str) -> bool:
    """A short word (info, production): no secret unless its name says so, and masking it would garble messages."""
    return value.isalpha() and len(value) < 12


def _names_secret(name: str, value: str) -> bool:
    plain = is_plain_word(value) or value.isdigit()
    return bool(_SECRET_NAME.search(name)) and not (plain and _SETTING.fullmatch(name))


def header_secrets(name: str, value: str) -> list[str]:
    """The parts of a header's value that must not be shown: all but the name of the scheme."""
    if name.lower() in _PLAIN_HEADERS:
        return []
    return _credentials(value)


def _credentials(value: str) -> list[str]:
    return [value, *(part for part in value.split() if part.lower() not in _SCHEMES)]


def argument_secrets(args: Sequence[str]) -> list[str]:
    """What stands behind `--token=`, `--token`, `Authorization:` or `--header=Authorization:`, and the secrets of URLs
    among and in the arguments."""
    found: list[str] = []
    for before, argument in zip(("", *args), args, strict=False):
        found += _named_secrets(argument)
        if before.startswith("-") and "=" not in before and _names_secret(before, argument):
            found += [] if argument.startswith("-") else _credentials(argument)
        found += secrets_of_urls(argument)
    return found


def _named_secrets(text: str) -> list[str]:
    """What stands behind the first name that says it is secret."""
    while named := _NAMED.match(text):
        if _names_secret(named[1], named[2]):
            return _credentials(named[2])
        text = named[2]
    return []


def secrets_of_urls(text: str) -> list[str]:
    """The secrets of every URL in a text."""
    return [secret for url in _URL.findall(text) for secret in url_secrets(url)]


def url_secrets(url: str) -> list[str]:
    """Passwords, a user's name that stands for one, what is behind `=` in the query, and random parts of the path; all
    of a URL that cannot be read. Plain words whose name says nothing (`admin@`, `sslmode=require`) are none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    asked = (item.partition("=") for item in parts.query.split("&"))
    values = [value for name, _, value in asked if _names_secret(name, value) or not is_plain_word(value)]
    user = "" if parts.password or is_plain_word(parts.username or "") else parts.username
    random = [part for part in parts.path.split("/") if len(part) >= _SHORTEST_IN_PATH and _mixed(part)]
    return [value for value in (parts.password, user, *values, *random) if value]


def _mixed(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _forms(value: str) -> set[str]:
    """The value as it stands, its lines, and both inside JSON and inside a URL."""
    whole = {value.strip(), *map(str.strip, value.splitlines()), unquote(value.strip())}
    long = {text for text in whole if len(text) >= _SHORTEST and text.lower() not in _SWITCHES}
    return {form for text in long for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))}


def _pattern(values: set[str]) -> re.Pattern[str] | None:
    # Longest first, so that no value is masked only up to a shorter one's end.
    ordered = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


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
