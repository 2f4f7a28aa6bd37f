"""What is secret in the settings of a server or an endpoint: by its name, by where it stands, or as it looks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

_SECRET_NAME = re.compile(
    r"key(?!word|board|space|cloak|note|stroke|frame)|token(?!i[sz])|secret(?!ar)|pass(?!enger|age|ive|port)|pwd"
    r"|auth(?!or(?!i[sz]))|cred(?!it)|cookie|session|private|(?<![a-z])(pat|pin|pw|jwt|sig|otp)(?![a-z])",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"-*(max|min)[_-].*|.*tokens([_-]per[_-].*)?|auth(source|mechanism)|.*[_-](type|mode|method|provider|strategy|scheme"
    r"|backend|store|driver|format|header|prefix|scopes?|version|budget|limit|timeout|ttl|count|size|length|port)"
    r"|.*(sort|order|group|primary|foreign|partition|public)[_-]?key",
    re.IGNORECASE,
)
"""Names such as MAX_TOKENS, AUTH_TYPE and sort_key: a number or plain words there are none."""
_BARE = re.compile(r"-*(key|auth|session|cookie|private)", re.IGNORECASE)
"""Names that stand before plain words in many an argument (`--auth basic`, "give key=value")."""
_KNOWN_BY = re.compile(r".+[_-](domain|host|issuer|realm|user|username|name)", re.IGNORECASE)
"""Names of what a secret is known or used by (AUTH_USER, COOKIE_DOMAIN)."""
_OF_PLACE = re.compile(r".*(path|file|dir|folder|url|uri|endpoint|credentials)", re.IGNORECASE)
"""Names such as KEY_FILE and AUTH_URL: a place there is none, though a URL may hold some."""
_IDENTIFIER = re.compile(
    r"(.+[_-])?(project|org|organi[sz]ation|workspace|team|tenant|account|region|domain|host|database|db|model|user"
    r"|username|email)|.+[_-](ids?|ref|name)|(?-i:.*[a-z](Ids?|Ref))",
    re.IGNORECASE,
)
"""Names of what often looks as random as a secret and stands in many a result; ACCESS_KEY_ID is secret all the same."""
_PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_SCHEMES = frozenset({"apikey", "basic", "bearer", "digest", "negotiate", "token"})
SWITCHES = frozenset({"true", "false", "none", "null", "enabled", "disabled"})
"""No secret wherever they stand; masked, they would garble every second schema and result."""
_PLACE = re.compile(r"[~./\\]|[a-z]+://|[A-Za-z]:\\")
_TIME = re.compile(r"[\d:.,TZ+-]+")
_WORDS = re.compile(r"[^\W\d_]+(?:[-_./'][^\W\d_]+)*[.,:;!?]*")
_NAMED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,64})["'\\]{0,3}(?P<sign>=|[ \t]{0,3}[=:][ \t]{0,3})(?P<quote>\\?["'])?"""
)
_VALUE = re.compile(r"""[^\s&"]*""")
_CREDENTIAL = re.compile(r"""\s+([^\s"']+)""")
_OPTION = re.compile(r"""(?<!\S)(--?[\w-]{2,64})\s+(?:"([^"]*)"|'([^']*)'|([^\s"'-]\S*))""")
"""Of a command line that is one argument, or the whole command."""
_CRUMB = re.compile(r"=\s*([^\s;=]+)")
_MARK = re.compile(r"""[\\"'`,;)\]}>]""")
_URL = re.compile(r'[A-Za-z][\w+.-]{0,30}://(?:(?![A-Za-z][\w+.-]{0,30}://)[^\s"])+')
"""To where the next one begins, so that no letter is read over and over."""
_AUTHORITY = re.compile(r"[A-Za-z][\w+.-]*://([^/?#]*)")
_SLASHED_PASSWORD = re.compile(r"[A-Za-z][\w+.-]*://([^/?#@:]*:(?!\d*[/?#])[^\s@]*)@")
_PIECE = re.compile(r"(?:([^/?#&;=]*)=)?([^/?#&;=]+)")
_SHORTEST = 4
# What a random credential looks like: shorter or plainer values (a time zone, a user's name) stay readable in results.
_SHORTEST_GUESSED = 8
LONG = 16
"""A text as long as that, and random, is a secret also where nothing names it; nobody finds it by trying."""


def variable_secrets(name: str, value: str, *, guess: bool) -> list[str]:
    """A variable's value where its name says that it is secret, or, with `guess`, where it looks random."""
    return _credentials(value) if _looks_secret(name, value, guess=guess) else []


def header_secrets(name: str, value: str, *, guess: bool = True) -> list[str]:
    """The parts of a header's value that must not be shown: what follows the name of a scheme, or the whole."""
    if name.lower() in _PLAIN_HEADERS:
        return []
    whole = _has_scheme(value) or _looks_secret(name, value, guess=guess, shortest=_SHORTEST)
    return [*(_credentials(value) if whole else []), *secrets_in(value, guess=guess)]


def header_values(headers: Mapping[str, str]) -> list[str]:
    """What errors and logs leave out of headers: all but plain words and what any client sends."""
    return [value for name, value in headers.items() if name.lower() not in _PLAIN_HEADERS and not is_plain(value)]


def argument_secrets(args: Sequence[str], *, guess: bool = True) -> list[str]:
    """What stands behind `--token=`, `--token`, `Authorization:` or `--header=Authorization:`, and the secrets of URLs
    among and in the arguments; behind `--token` within one, where prose may stand, what is no word."""
    found: list[str] = []
    for before, argument in zip(("", *args), args, strict=False):
        found += [*secrets_in(argument, guess=guess), *_option_secrets(argument)]
        is_flag = before.startswith("-") and "=" not in before and not argument.startswith("-")
        if is_flag and _names_secret(before, argument) and not (_BARE.fullmatch(before) and _is_prose(argument)):
            found += _credentials(argument)
    return found


def secrets_in(text: str, *, guess: bool = True) -> list[str]:
    """What stands in a text, which may be a URL, behind names that say so, and the secrets of its URLs; of these, with
    `guess`, also what looks random. Each also as it is before a quote, a comma or a bracket, the text's own perhaps."""
    urls = [text, *_URL.findall(text)] if len(text.split()) == 1 else _URL.findall(text)
    found = [*_named_secrets(text), *(secret for url in urls for secret in _of_url(url, guess))]
    return [*found, *map(_before_mark, found)]


def is_plain(value: str) -> bool:
    """A short word (info, production) or number (3000): no secret unless its name says so, and masking it would garble
    messages."""
    return (value.isalpha() and len(value) < 12) or (value.isdigit() and len(value) < 6)


def _looks_secret(name: str, value: str, *, guess: bool, shortest: int = _SHORTEST_GUESSED) -> bool:
    return _names_secret(name, value) or (guess and not _IDENTIFIER.fullmatch(name) and _is_random(value, shortest))


def _names_secret(name: str, value: str) -> bool:
    if not _SECRET_NAME.search(name) or _KNOWN_BY.fullmatch(name):
        return False
    plain = value.isdigit() or _WORDS.fullmatch(value)
    return not (plain and _SETTING.fullmatch(name)) and not (_PLACE.match(value) and _OF_PLACE.fullmatch(name))


def _option_secrets(text: str) -> Iterator[str]:
    for name, *quoted in _OPTION.findall(text):
        value = "".join(quoted)
        if _names_secret(name, value) and not _is_prose(value):
            yield from _credentials(value)


def _named_secrets(text: str) -> Iterator[str]:
    """Of `password=x`, `"password": x` and a header that is the whole text whatever it is; behind any other colon, as
    prose has them, what is no word. Where only names stand before it, also with all that follows it."""
    position, last = 0, len(text.rstrip())
    while named := _NAMED.search(text, position):
        is_whole, position = named.start() == position, named.end()
        if not _SECRET_NAME.search(named["name"]):
            continue
        begin, end = _value_span(text, position, named["quote"])
        value = text[begin:end]
        bare = _before_mark(value)
        may_be_prose = not _is_setting(text, named, alone=is_whole and end == last)
        if (may_be_prose and _is_prose(bare)) or bare.lower() in SWITCHES or not _names_secret(named["name"], bare):
            continue
        yield from _credentials(value)
        yield text[position:] if is_whole else ""
        position = end


def _is_setting(text: str, named: re.Match[str], *, alone: bool) -> bool:
    if _BARE.fullmatch(named["name"]):
        return named.start() > 0 and text[named.start() - 1] in "?&"
    return named["sign"] == "=" or text[named.end("name")] in "\\\"'" or alone


def _value_span(text: str, begin: int, quote: str | None) -> tuple[int, int]:
    end = text.find(quote, begin) if quote else -1
    if end < 0 and (unquoted := _VALUE.match(text, begin)):
        end = unquoted.end()
    credential = _CREDENTIAL.match(text, end) if text[begin:end].lower() in _SCHEMES else None
    return credential.span(1) if credential else (begin, end)


def _is_prose(value: str) -> bool:
    return all(_WORDS.fullmatch(part) or _TIME.fullmatch(part) for part in value.split())


def _credentials(value: str) -> list[str]:
    """The value, what follows the name of a scheme, and what looks random in a cookie's `name=value; name=value`."""
    return [value, *(value.split()[1:] if _has_scheme(value) else []), *filter(_is_random, _CRUMB.findall(value))]


def _has_scheme(value: str) -> bool:
    scheme, blank, _ = value.partition(" ")
    return bool(blank) and scheme.lower() in _SCHEMES


def _before_mark(value: str) -> str:
    return _MARK.split(value, maxsplit=1)[0]


def _of_url(url: str, guess: bool) -> Iterator[str]:
    if (authority := _AUTHORITY.match(url)) is None:
        return
    info, at, _ = authority[1].rpartition("@")
    if not at and (slashed := _SLASHED_PASSWORD.match(url)):
        info = slashed[1]
    user, _, password = info.partition(":")
    # Where the user's own name is the password (postgres:postgres@), only that place is hidden.
    yield f":{password}@" if password == user else password
    # Libraries take what is before the password's own `/` or `#` for the port, and name it.
    yield authority[1].partition(":")[2] if password and not at else ""
    yield "" if password or _WORDS.fullmatch(user) else user
    if guess:
        yield from _random_pieces(url[authority.end() :])


def _random_pieces(rest: str) -> Iterator[str]:
    """Of a path and a query, as they stand there."""
    for piece in _PIECE.finditer(rest):
        name, value = piece[1], unquote(piece[2])
        of_path = len(value) >= LONG and not value.isalpha() and _is_random(value)
        if of_path if name is None else _looks_secret(name, value, guess=True):
            yield piece[2]


def _is_random(value: str, shortest: int = _SHORTEST_GUESSED) -> bool:
    """One long word, or letters and digits mixed within the parts that `-`, `.` and the like join, as they are not in
    `eu-west-1`."""
    if value.isalpha():
        return len(value) >= LONG
    parts = re.split(r"[\W_]+", value)
    mixed = (part for part in parts if any(map(str.isdigit, part)) and sum(map(str.isalpha, part)) > 1)
    return sum(map(len, mixed)) >= shortest and not _PLACE.match(value) and not _TIME.fullmatch(value)
