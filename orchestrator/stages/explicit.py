"""Explicit server: "use X to", "via X", "from the X server", checked against the servers of this catalogue.

In everyday sentences these forms fire often and name a server rarely ("using bullet points"). So a name that is also
an everyday word, or a word that other servers' tools use, counts only in a strong form ("X mcp", "use X to").
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.everyday import EVERYDAY
from orchestrator.text import spaced

_WORD = re.compile(r"@?[^\W_][\w.+&'/-]*[\w+]|[^\W_]", re.UNICODE)
_GENERIC = frozenset(
    "mcp server servers api apis connector connectors integration plugin tool tools service com io".split()
)
_ARTICLES = frozenset("the my our your this that a an only just".split())
_VERBS = frozenset("use using with via through ask call leverage".split())
_PLACES = frozenset("from on in inside within by into to".split())
_NOUNS = frozenset("mcp server connector integration plugin".split())
_NEGATIONS = frozenset("without except excluding avoid skip not don't dont never unless instead".split())
_STRONG_AFTER_USE = frozenset("to for and".split())


class Form(StrEnum):
    """How clearly the words name a server."""

    STRONG = "strong"
    WEAK = "weak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A server that the query names: the words it used, how clearly, and whether it is to be left out."""

    server: str
    said: str
    form: Form
    negated: bool = False
    corrected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """What the query says of servers. `unknown` maps names in the strong form to the known names near them."""

    mentions: tuple[Mention, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if not m.negated))

    @property
    def unwanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if m.negated))


class ServerIndex:
    """The names that one catalogue's servers go by.

    `ordinary` are words that tools' descriptions use in lower case: as a name they are believed in a strong form only.
    """

    def __init__(self, servers: Iterable[str], ordinary: Container[str] = ()) -> None:
        self._servers_of: dict[str, tuple[str, ...]] = {}
        for server in servers:
            for alias in aliases(server):
                self._servers_of[alias] = (*self._servers_of.get(alias, ()), server)
        self._ordinary = frozenset(alias for alias in self._servers_of if _is_ordinary(alias, ordinary))
        self._longest = max((len(alias.split()) for alias in self._servers_of), default=0)
        self._near: dict[str, set[str]] = {}
        for alias in self._servers_of:
            if len(alias) >= 5 and " " not in alias:
                for variant in _deletions(alias):
                    self._near.setdefault(variant, set()).add(alias)

    def find(self, text: str) -> Explicit:
        """Every server that the text names, and the unknown ones it names in the strong form."""
        words = [match.group() for match in _WORD.finditer(text[:4_000])]
        lower = [word.lower().strip("'.") for word in words]
        capital = [place > 0 and word[0].isupper() for place, word in enumerate(words)]
        mentions: list[Mention] = []
        unknown: dict[str, tuple[str, ...]] = {}
        place = 0
        while place < len(lower):
            found = self._at(lower, capital, place) if self._servers_of else None
            if found is not None:
                length, new = found
                mentions.extend(new)
                place += length
                continue
            if (name := _unknown_name(lower, place)) and not self._servers_of.get(name):
                near = sorted(self._neighbours(name))
                if near or _looks_like_a_name(words[place]):
                    unknown[words[place]] = tuple(server for alias in near for server in self._servers_of[alias])[:3]
            place += 1
        return Explicit(mentions=tuple(mentions), unknown=unknown)

    def _at(self, words: Sequence[str], capital: Sequence[bool], place: int) -> tuple[int, list[Mention]] | None:
        """The longest known name that starts here in a form that counts: its length in words and its mentions."""
        for length in range(min(self._longest, len(words) - place), 0, -1):
            said = " ".join(words[place : place + length]).lstrip("@")
            alias, corrected = said, False
            if alias not in self._servers_of:
                near = self._neighbours(said) if length == 1 else set()
                if len(near) != 1:
                    continue
                alias, corrected = near.pop(), True
            form = self._form(words, place, length, alias, named=capital[place], corrected=corrected)
            if form is not None:
                negated = _negated(words, place)
                return length, [
                    Mention(server=server, said=said, form=form, negated=negated, corrected=corrected)
                    for server in self._servers_of[alias]
                ]
        return None

    def _form(
        self, words: Sequence[str], place: int, length: int, alias: str, *, named: bool, corrected: bool
    ) -> Form | None:
        """How clearly these words name the server; None if they more likely don't. `named`: written as a name is."""
        before = _before(words, place)
        after = words[place + length] if place + length < len(words) else ""
        ordinary = alias in self._ordinary
        if words[place].startswith("@") or (after in _NOUNS and (after != "server" or before in _VERBS | {"from"})):
            return Form.STRONG
        if before in ("use", "using") and after in _STRONG_AFTER_USE and not (ordinary and after == "and"):
            return Form.STRONG
        if ordinary or corrected or len(alias) < 3:
            return None
        if before in _VERBS | _NEGATIONS or (before in _PLACES and named):
            return Form.WEAK
        return None

    def _neighbours(self, said: str) -> set[str]:
        """Known names at one edit or one swap of neighbours from a word of five letters or more."""
        if len(said) < 5:
            return set()
        return {
            alias for variant in _deletions(said) for alias in self._near.get(variant, ()) if _one_edit(said, alias)
        }


def _is_ordinary(alias: str, ordinary: Container[str]) -> bool:
    """Whether every word of a name is one that people use for something else."""
    return all(word in EVERYDAY or word in ordinary for word in alias.split())


def aliases(server: str) -> set[str]:
    """The names that a server goes by: in full, without "mcp", "server" and the like, and without its owner."""
    names = {server.lower()}
    for name in (server, server.rpartition("/")[2]):
        words = re.sub(r"[^\w\s.+&'-]", " ", spaced(name.replace("@", " "))).lower().split()
        core = [word for word in words if word not in _GENERIC]
        for form in (words, core):
            names.update((" ".join(form), "".join(form)))
    return {name for name in names if name and name not in _GENERIC and not name.isdigit()}


def _before(words: Sequence[str], place: int) -> str:
    """The nearest word before this place that is no article."""
    place -= 1
    while place >= 0 and words[place] in _ARTICLES:
        place -= 1
    return words[place] if place >= 0 else ""


def _negated(words: Sequence[str], place: int) -> bool:
    """Whether a negation stands within the three words before."""
    window = words[max(0, place - 3) : place]
    return any(word in _NEGATIONS for word in window)


def _unknown_name(words: Sequence[str], place: int) -> str | None:
    """A word that stands where a server's name stands in the strong form, else None."""
    word = words[place]
    after = words[place + 1] if place + 1 < len(words) else ""
    if word in _ARTICLES | _VERBS | _GENERIC or len(word) < 3:
        return None
    if after in ("mcp", "connector") or (after == "server" and _before(words, place) in _VERBS | {"from"}):
        return word.lstrip("@")
    return None


def _looks_like_a_name(word: str) -> bool:
    """Whether an unknown word looks like a product's name more than like an everyday word ("an mcp server")."""
    return word.lower() not in EVERYDAY


def _deletions(word: str) -> set[str]:
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def _one_edit(one: str, other: str) -> bool:
    """Whether one insertion, deletion, change or swap of neighbours makes one word the other."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    a, b = one[start:], other[start:]
    if a[1:] == b[1:] or a == b[1:] or a[1:] == b:
        return True
    return len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0] and a[2:] == b[2:]
