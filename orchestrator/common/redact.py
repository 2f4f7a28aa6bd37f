"""Keeping secrets out of errors, logs, listings and results. Secret settings and the keys in use are masked."""

import base64
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, unquote_plus, urlsplit

MASK = "***"

_SHORTEST = 4
"""A shorter secret is a part of many ordinary words, and masking it would make a result unreadable."""
_SHORTEST_ENCODED = 10
"""The bytes of a value that is also masked in base64 and hexadecimal. A shorter form would be a part of other data."""
_JSON_LEVELS = 4
"""A result is often JSON in a text of JSON. Each level escapes the quotes of a secret once more."""
_LONGEST_WORD = 11
"""The letters of a value that is a plain word, and not a secret, unless its name says so."""
_LONGEST_NUMBER = 5
"""The digits of a port or a limit, which results have to show."""
_LONG_SEGMENT = 16
_LONG_PARAMETER = 8
"""The characters from which a part of a path, or a parameter of an address, may be a key."""
_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|auth|cred|cookie|session", re.IGNORECASE)
_TYPED = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|pwd|auth\w*|cred\w*)\w*[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic|token)\s+)?([^\s\"',;]{4,})"
    r"|(?<![\w/-])((?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,})",
    re.IGNORECASE,
)
_UNMASKED = frozenset(
    {
        *("true", "false", "none", "null", "enabled", "disabled"),
        *("text", "image", "audio", "resource", "user", "assistant", "form", "object", "string"),
    }
)
"""Switches, and words that the protocol itself writes in messages."""
_BASE64_FIELDS = frozenset({"blob", "data"})
"""The names of fields with base64: of resources, and of images and sounds."""
_SCHEMES = frozenset({"apikey", "basic", "bearer", "digest", "negotiate", "token"})
"""The words before a credential in an authorization header. The credential alone is a secret, too."""
_HEADER_OPTIONS = frozenset({"-H", "--header"})


class Secrets:
    """Masks the given values, also as single lines, in JSON, in a URL, in base64 and in hexadecimal.

    Values like true and none, words of the protocol such as text and user, and values with fewer than four characters,
    are not masked. Masking them would garble many results.
    """

    __slots__ = ("_forms", "_pattern", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._forms: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Mask these values, too, for example renewed tokens. Every user of this object masks them from now on."""
        before = self._values
        self._values = before.union(values)
        if self._values == before:
            return
        unique = set(chain.from_iterable(map(_texts, self._values)))
        # Longest first, so that a shorter value does not mask only a part of a longer one.
        texts = sorted(unique, key=_longest_first)
        self._forms = list(dict.fromkeys(chain.from_iterable(map(_forms, texts))))
        patterns = list(chain.from_iterable(map(_patterns, texts)))
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def also(self, values: Iterable[str]) -> "Secrets":
        """Return these secrets with additional values."""
        return Secrets(self._values.union(values))

    def redact(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def are_in(self, text: str) -> bool:
        """Return True if a text holds one of these values that is like a key: long, with letters and digits.

        A name may well contain another value, such as that of DATABASE=notes_db.
        """
        return any(form in text for form in self._forms if _is_like_a_key(form))

    def redact_json(self, value: Any) -> Any:
        """Mask every text of a decoded JSON value, with the names, and each long number that is a secret. Short
        numbers stay, because a schema has them too.
        """
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self.redact_json(item) for item in value]
        if isinstance(value, dict):
            redacted = {}
            for name, item in value.items():
                is_base64 = name in _BASE64_FIELDS and isinstance(item, str)
                masked = self._redact_base64(item) if is_base64 else self.redact_json(item)
                redacted[self.redact(name)] = masked
            return redacted
        if isinstance(value, int | float):
            text = str(value)
            return MASK if len(text) >= _LONG_PARAMETER and text in self._values else value
        return value

    def _redact_base64(self, text: str) -> str:
        """Return base64 whose content has no secret. A text that is not base64 is redacted directly."""
        try:
            content = base64.b64decode(text, validate=True)
        except ValueError:
            return self.redact(text)
        # Without the pattern, which takes a second for a large picture.
        forms = [form.encode() for form in self._forms if form.encode() in content]
        for form in forms:
            content = content.replace(form, MASK.encode())
        return base64.b64encode(content).decode() if forms else text

    def __repr__(self) -> str:
        return "Secrets(...)"


def setting_secrets(settings: Mapping[str, str]) -> list[str]:
    """Return the secrets in variables or headers: all values except short numbers, existing paths, and plain words.

    A plain word is a secret if its name looks like that of a secret.
    """
    hidden = [value for name, value in settings.items() if not _is_readable(name, value)]
    return [secret for value in hidden for secret in _parts(value)]


def url_secrets(url: str) -> list[str]:
    """Return the secrets in an address: its password, parameters that are long or named like secrets,
    and long path segments.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    segments = [segment for segment in parts.path.split("/") if len(segment) >= _LONG_SEGMENT]
    query = [parameter.partition("=")[::2] for parameter in parts.query.split("&")]
    hidden = [
        value for name, value in query if len(value) >= _LONG_PARAMETER or _SECRET_NAME.search(name)
    ]
    return [*_passwords(url), *segments, *hidden, *map(unquote_plus, hidden)]


def typed_secrets(text: str) -> list[str]:
    """Return the parts that look like keys in a text that a person typed.

    These are values after a secret's name and = or :, and long mixtures of letters and digits.
    """
    return [value or run for value, run in _TYPED.findall(text)]


def argument_secrets(args: Sequence[str]) -> list[str]:
    """Return the secrets in a command's arguments.

    These are the values of options and variables with a secret's name, also within an argument (`Server=x;Password=y`),
    headers, and passwords in URLs.
    """
    secrets: list[str] = []
    for before, argument in zip(("", *args), args, strict=False):
        name, equals, value = argument.partition("=")
        is_secret_option = before.startswith("-") and _SECRET_NAME.search(before)
        if name in _HEADER_OPTIONS:  # --header=NAME:VALUE
            secrets += _header_secrets(value)
        elif before in _HEADER_OPTIONS:  # --header NAME:VALUE
            secrets += _header_secrets(argument)
        elif equals and _SECRET_NAME.search(name):  # --token=VALUE
            secrets += _parts(value)
        elif is_secret_option and not argument.startswith("-"):  # --token VALUE
            secrets += _parts(argument)
        secrets += _passwords(argument)
        secrets += [value for value, _ in _TYPED.findall(argument) if value]
    return [secret for secret in secrets if not _is_number(secret)]


def _header_secrets(text: str) -> list[str]:
    name, _, value = text.partition(":")
    return setting_secrets({name: value.strip()})


def _is_readable(name: str, value: str) -> bool:
    is_word = value.isalpha() and len(value) <= _LONGEST_WORD and not _SECRET_NAME.search(name)
    return is_word or _is_number(value) or _is_place(value)


def _is_like_a_key(value: str) -> bool:
    is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return is_mixed and len(value) > _LONGEST_WORD


def _is_number(value: str) -> bool:
    return value.isdigit() and len(value) <= _LONGEST_NUMBER


def _is_place(value: str) -> bool:
    """Return True if a value is the path of a file or folder. Results have to show such paths."""
    try:
        path = Path(value).expanduser()
        return "/" in value and (
            path.exists() or (path.parent != Path("/") and path.parent.is_dir())
        )
    except (OSError, ValueError, RuntimeError):
        return False


def _parts(value: str) -> Iterator[str]:
    """Yield a value, the credential after an authorization scheme in it, and the passwords in both."""
    yield value
    scheme, _, credential = value.partition(" ")
    if scheme.lower() in _SCHEMES:
        yield credential
    if scheme.lower() == "basic":
        yield from _basic_password(credential)
    yield from _passwords(value)


def _basic_password(credential: str) -> list[str]:
    """Return the password that a Basic credential holds, the base64 of `user:password`."""
    try:
        user_and_password = base64.b64decode(credential, validate=True).decode()
    except ValueError:
        return []
    return [user_and_password.partition(":")[2]]


def _passwords(text: str) -> list[str]:
    """Return the password of a URL in a text, and the Basic credential that a client makes of it.

    Without a password, return its user, because some tokens are given so.
    """
    _, scheme, address = text.partition("://")
    host = address.split("/", 1)[0]
    credential, at, _ = host.rpartition("@")
    if not (scheme and at):
        return []
    user, _, password = credential.partition(":")
    decoded = f"{unquote(user)}:{unquote(password)}"
    basic = base64.b64encode(decoded.encode()).decode()
    return [password or credential, basic]


def _longest_first(text: str) -> tuple[int, str]:
    return -len(text), text


def _texts(value: str) -> Iterator[str]:
    """Yield the texts of a value that are masked: the value, also unquoted, and its lines."""
    for text in {
        value.strip(),
        unquote(value.strip()),
        *map(str.strip, value.replace("\\n", "\n").splitlines()),
    }:
        if len(text) >= _SHORTEST and text.lower() not in _UNMASKED:
            yield text


def _patterns(text: str) -> Iterator[str]:
    yield from map(_escaped, _forms(text))
    if not text.isalpha():
        yield _url_pattern(text)


def _forms(text: str) -> list[str]:
    """Return the text as others may write it, the longest form first. `_url_pattern` finds further forms in a URL."""
    text_bytes = text.encode("utf-8", "surrogatepass")
    forms = {text, quote(text_bytes), quote(text_bytes, safe=""), *_json_forms(text)}
    if len(text_bytes) >= _SHORTEST_ENCODED:
        forms |= {text_bytes.hex(), text_bytes.hex().upper(), *_base64_forms(text_bytes)}
    return sorted(forms, key=_longest_first)


def _url_pattern(text: str) -> str:
    """Return the pattern of a text in a URL. Encoders differ in the signs that they leave and the case of digits."""
    pattern = ""
    for char in text:
        if char.isascii() and char.isalnum():
            pattern += char
        else:
            encoded = "".join(map(_percent_pattern, char.encode("utf-8", "surrogatepass")))
            pattern += f"(?:{encoded}|{'[ +]' if char == ' ' else re.escape(char)})"
    return pattern


def _percent_pattern(byte: int) -> str:
    """Return the pattern of a byte in percent-encoding, such as `%2[Ff]`."""
    return "%" + re.sub("[A-F]", lambda digit: f"[{digit[0]}{digit[0].lower()}]", f"{byte:02X}")


def _json_forms(text: str) -> Iterator[str]:
    """Yield the forms of a text in JSON, and in JSON that is itself a text of JSON."""
    forms = {text}
    for _ in range(_JSON_LEVELS):
        forms = {
            json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            for form in forms
            for ascii_only in (True, False)
        }
        yield from forms


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the forms of a value in base64: after zero, one and two other bytes, at the end of a text and before its
    end.

    The characters that also depend on the bytes next to the value are left out.
    """
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value).decode()
        first = (before * 8 + 5) // 6
        last = (before + len(value)) * 8 // 6
        yield from (encoded[first:].rstrip("="), encoded[first:last])


def _escaped(value: str) -> str:
    """Return the pattern of a value. A plain word must be a whole word (`post` does not match in `postgres`).

    The check comes after the word, also behind an escape in JSON or a URL. So the pattern begins with a letter, which
    is fast.
    """
    if not value.isalpha() or len(value) > _LONGEST_WORD:
        return re.escape(value)
    return rf"{value}(?![^\W\d_])(?:(?<![^\W\d_]{value})|(?<=\\[nrt]{value})|(?<=%[0-9A-Fa-f]{{2}}{value}))"


class LogFilter(logging.Filter):
    """Masks secrets in the logs of the MCP and HTTP libraries, while a connection is open or a request runs."""

    LOGGERS = (
        *(
            f"mcp.client.{module}"
            for module in ("caching", "client", "sse", "stdio", "streamable_http")
        ),
        *("mcp.client.auth.oauth2", "mcp.client.auth.utils"),
        *(f"mcp.shared.{module}" for module in ("dispatcher", "jsonrpc_dispatcher")),
        *(
            f"httpcore{two}.{part}"
            for two in ("2", "")
            for part in ("connection", "http11", "http2", "proxy", "socks")
        ),
        *("client", "httpx2", "httpx", "openai._base_client"),  # The last two belong to openai 2.
    )

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = self._secrets.redact(record.getMessage())
        record.args = ()
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
            record.exc_text = self._secrets.redact(text)
        return True

    def __enter__(self) -> Self:
        self._replace(lambda filters: [*filters, self])
        return self

    def __exit__(self, *_: object) -> None:
        self._replace(
            lambda filters: [log_filter for log_filter in filters if log_filter is not self]
        )

    def _replace(self, change: Callable[[list[Any]], list[Any]]) -> None:
        """Set a new list instead of changing the old one. A thread that iterates over it would skip a filter."""
        with _FILTERS:
            for name in self.LOGGERS:
                logger = logging.getLogger(name)
                logger.filters = change(logger.filters)


_FILTERS = threading.Lock()
"""Two connections may open and close at the same moment."""
