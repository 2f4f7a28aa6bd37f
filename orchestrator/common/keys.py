"""Keys of tools: `server:name`, or only the name of a tool without a server, such as a local function.

A server chooses the names of its tools. So keys and names are compared in one normal form where a difference must not
let a tool pass. A rule such as `!box:delete_*` also excludes `Delete_repo`, `delete-repo`, a full-width `ｄelete_repo`,
a Cyrillic `dеlete_repo`, and names with an invisible character or a blank.
"""

import unicodedata
from fnmatch import fnmatchcase
from functools import lru_cache

_CYRILLIC = dict(zip("аеорсухіјѕԁһԛԝкмтвнг", "aeopcyxijsdhqwkmtbhr", strict=True))
_GREEK = dict(zip("οανιρτυκεχ", "oaviptukex", strict=True))
_HYPHENS = dict.fromkeys("-\u02d7\u2043\u2212", "_")
_LOOKALIKES = str.maketrans(_CYRILLIC | _GREEK | _HYPHENS)
"""Letters that look like Latin ones, and the hyphen, which names use for `_`, with three symbols that look like it. No
two tools of a server among 21,541 public tools have one normal form."""
_FILLERS = dict.fromkeys(map(ord, "\u115f\u1160\u2800"))
"""Letters and a symbol without a shape: the Hangul fillers, and a Braille pattern without dots. With them and the
categories below, no character of Unicode's Default_Ignorable_Code_Point is left after NFKC."""
_DASHES = ("Pc", "Pd")
"""The categories of all that connects words, such as the hyphen that is not ASCII's."""
_INVISIBLE = ("Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs", "Mn")


def key_of(server: str, name: str) -> str:
    """Return the key of a tool. Without a server, a name that contains a colon gets a colon in front."""
    return f"{server}:{name}" if server or ":" in name else name


def split_key(key: str) -> tuple[str, str]:
    """Return the server (empty for none) and the name of the tool with this key."""
    server, colon, name = key.partition(":")
    return (server, name) if colon else ("", key)


@lru_cache(maxsize=50_000)
def normal_name(name: str) -> str:
    """Return the normal form of a name: compatible characters, no case, nothing invisible, Latin for lookalikes."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    if not (folded.isascii() and folded.isprintable()):
        decomposed = unicodedata.normalize("NFKD", folded).translate(_FILLERS)
        folded = "".join(map(_plain_character, decomposed))
    return "".join(folded.translate(_LOOKALIKES).split())


def _plain_character(char: str) -> str:
    category = unicodedata.category(char)
    if category in _INVISIBLE:
        return ""
    return "_" if category in _DASHES else char


def matches_name(key: str, pattern: str) -> bool:
    """Return True if a tool's key fits a pattern in the normal form. Sets of characters such as [a-c] stay as written.

    Args:
        key: The tool's key.
        pattern: A pattern with `*`, `?` and `[...]`.
    """
    if fnmatchcase(key, pattern):
        return True
    return "[" not in pattern and fnmatchcase(normal_name(key), normal_name(pattern))
