"""Explicit server: "use X to", "via X", "from the X server", checked against the servers of this catalogue.

In everyday sentences these forms fire often and name a server rarely ("using bullet points"). So a name that is also
an everyday word, or a word that tools' descriptions use, counts only in a strong form ("X mcp", "use X to").
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Self

from orchestrator.index.text import STOP_WORDS, spaced
from orchestrator.language.common_words import EVERYDAY
from orchestrator.language.quoted import masked, with_messages_masked
from orchestrator.language.spelling import Speller
from orchestrator.language.wording import PLACES, VERBS, Wording
from orchestrator.language.words import MAX_CUT
from orchestrator.records.tool import Tool

_LOWER_WORD = re.compile(r"(?<![\w.@/-])[a-z]{3,}(?![\w@/-])")
_GENERIC = frozenset(
    "mcp server servers remote api apis connector connectors integration plugin tool tools service com io".split()
)


class Form(StrEnum):
    """How clearly the words name a server."""

    STRONG = "strong"
    WEAK = "weak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A server that the query names: the words it used, how clearly, and whether it is to be left out.

    `span`: where the text says that it is left out, in characters.
    """

    server: str
    said: str
    form: Form
    negated: bool = False
    corrected: bool = False
    span: tuple[int, int] = (0, 0)

    def is_left_out_in(self, said: str) -> bool:
        """Whether the text, `masked`, itself says that it is to be left out, and no message that it quotes."""
        return bool(said[slice(*self.span)].strip("Q"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """What the query says of servers. `unknown` maps names in the strong form to the known names near them."""

    mentions: tuple[Mention, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([m.server for m in self.mentions if not m.negated]))

    @property
    def clearly_wanted(self) -> frozenset[str]:
        """Those of them that are named in the strong form."""
        return frozenset(m.server for m in self.mentions if not m.negated and m.form is Form.STRONG)

    @property
    def unwanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([m.server for m in self.mentions if m.negated]))

    def asked(self, text: str) -> str:
        """The text without what it wants left out: "not on github" is no word for GitHub's tools nor for others."""
        for start, end in {mention.span for mention in self.mentions if mention.negated}:
            text = text[:start] + " " * (end - start) + text[end:]
        return text


@dataclass(frozen=True, slots=True)
class _Name:
    """A known name in a query: words[start:end]."""

    start: int
    end: int
    alias: str
    corrected: bool = False


class ServerIndex:
    """The names that one catalogue's servers go by.

    `ordinary` are words that tools' descriptions use in lower case: as a name they are believed in a strong form only.
    """

    def __init__(
        self,
        servers: Iterable[str],
        ordinary: Mapping[str, int] | Collection[str] = (),
        known: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        """ordinary: perhaps with the number of tools that use each. known: aliases that are known already."""
        self._aliases = {server: known.get(server) or aliases(server) for server in servers}
        self._servers_of: dict[str, tuple[str, ...]] = {}
        for server, names in self._aliases.items():
            for alias in names:
                self._servers_of[alias] = (*self._servers_of.get(alias, ()), server)
        self._words_of_names = frozenset(" ".join(self._servers_of).split())
        self._said = Counter(ordinary)
        self._ordinary = _ordinary(self._servers_of, self._words_of_names & self._said.keys())
        self._longest: dict[str, int] = {}
        for alias in self._servers_of:
            first, words = alias.partition(" ")[0], alias.count(" ") + 1
            if words > self._longest.get(first, 0):
                self._longest[first] = words

    @cached_property
    def _speller(self) -> Speller:
        return Speller(alias for alias in self._servers_of if " " not in alias)

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Self:
        """The index of these tools' servers."""
        return cls(()).changed((), tuple(tools))

    def changed(self, gone: Sequence[Tool], come: Sequence[Tool]) -> Self:
        """The same after all the tools of some servers have gone and others have come."""
        said, before, now = Counter(self._said), _said_in(gone), _said_in(come)
        said.update(now)
        said.subtract(before)
        for word in before:
            if not said[word]:
                del said[word]
        left = self._aliases.keys() - {tool.server for tool in gone}
        servers = sorted((left | {tool.server for tool in come}) - {""})
        if servers != list(self._aliases):
            return type(self)(servers, said, self._aliases)
        same, ordinary = copy(self), self._ordinary
        if any((word in said) != (word in self._said) for word in self._words_of_names & (before.keys() | now.keys())):
            ordinary = _ordinary(self._servers_of, self._words_of_names & said.keys())
        vars(same).update(_said=said, _ordinary=ordinary)
        return same

    def find(self, text: str) -> Explicit:
        """Every server that the text names, and the unknown ones it names in the strong form."""
        query = Wording(with_messages_masked(text[:MAX_CUT]))
        mentions: list[Mention] = []
        unknown: dict[str, tuple[str, ...]] = {}
        past = 0
        for place in self._where_to_look(query):
            if place < past:
                continue
            names = self._names_at(query, place)
            found = [mention for name in names for mention in self._mentions(query, name, names)]
            mentions.extend(found)
            if not found and query.has_cue and (said := self._unknown_at(query, place)):
                unknown[said] = self._near(said)
            past = names[-1].end if found else place + 1
        if any(mention.negated for mention in mentions):
            said = masked(text[:MAX_CUT])
            mentions = [mention for mention in mentions if not mention.negated or mention.is_left_out_in(said)]
        return Explicit(mentions=tuple(mentions), unknown=unknown)

    def _where_to_look(self, query: Wording) -> Sequence[int]:
        """Where a name may begin: without a cue only a known one, with its first word."""
        if query.has_cue:
            return range(len(query.words))
        return [place for place, word in enumerate(query.words) if word in self._longest or word[0] == "@"]

    def _names_at(self, query: Wording, place: int) -> list[_Name]:
        """The known name that starts here, and those listed after it ("slack, jira and github")."""
        name = self._known_at(query, place) or (self._misspelt_at(query, place) if query.has_cue else None)
        names = [name] if name else []
        while name:
            after = query.after_list_mark(name.end)
            name = self._known_at(query, after) if after > name.end else None
            names += [name] if name else []
        return names

    def _known_at(self, query: Wording, place: int) -> _Name | None:
        """The longest known name that starts here."""
        longest = self._longest.get(query.word(place).lstrip("@"), 0)
        for end in range(min(place + longest, len(query.words)), place, -1):
            alias = " ".join(query.words[place:end]).lstrip("@")
            if alias in self._servers_of:
                return _Name(place, end, alias)
        return None

    def _misspelt_at(self, query: Wording, place: int) -> _Name | None:
        """A word that stands in a strong form and is one slip away from just one name."""
        word = query.word(place)
        if word in EVERYDAY or word in STOP_WORDS or not query.is_strong(place, place + 1, ordinary=False):
            return None
        near = self._speller.near(word.lstrip("@"))
        return _Name(place, place + 1, near[0], corrected=True) if len(near) == 1 else None

    def _mentions(self, query: Wording, name: _Name, listed: Sequence[_Name]) -> list[Mention]:
        form = self._form(query, name, listed)
        if form is None:
            return []
        said = " ".join(query.words[name.start : name.end]).lstrip("@")
        # "No X mcp" leaves X out; "no X issues" speaks of issues.
        no = form is Form.STRONG and query.word(listed[0].start - 1) == "no"
        negated = no or query.is_left_out(listed[0].start, listed[-1].end)
        span = query.left_out(listed[0].start, listed[-1].end) if negated else (0, 0)
        return [
            Mention(server=server, said=said, form=form, negated=negated, corrected=name.corrected, span=span)
            for server in self._servers_of[name.alias]
        ]

    def _form(self, query: Wording, name: _Name, listed: Sequence[_Name]) -> Form | None:
        """How clearly these words name the server; None if they more likely don't. A list is read as one name."""
        start, end = listed[0].start, listed[-1].end
        ordinary = name.alias in self._ordinary
        if query.is_strong(name.start, name.end, ordinary=ordinary) or query.is_strong(start, end, ordinary=ordinary):
            return Form.STRONG
        negated = query.is_left_out(start, end)
        if ordinary and not (negated and query.ends(end) and not EVERYDAY.issuperset(name.alias.split())):
            return None
        if name.corrected or len(name.alias) < 3:
            return None
        before = query.before(start)
        if before in VERBS or negated or (before in PLACES and query.is_capital(name.start)):
            return Form.WEAK
        return None

    def _unknown_at(self, query: Wording, place: int) -> str | None:
        """A word that stands where a name stands in the strong form and looks like one, as it was written."""
        word, after = query.word(place), query.word(place + 1)
        if len(word) < 3 or not word[0].isalpha() or word in STOP_WORDS or word in _GENERIC or word in self._servers_of:
            return None
        if not query.is_strong(place, place + 1, ordinary=True) or query.is_negated(place):
            return None
        if word in EVERYDAY and not (after == "mcp" and query.before(place) in VERBS):
            return None
        written_as_a_name = query.is_capital(place) or after in ("mcp", "server")
        no_noun = query.word(place - 1) in ("use", "using") and word not in self._said
        return query.said[place] if written_as_a_name or no_noun or self._speller.near(word) else None

    def _near(self, said: str) -> tuple[str, ...]:
        servers = (server for alias in self._speller.near(said.lower()) for server in self._servers_of[alias])
        return tuple(dict.fromkeys(servers))[:3]


def _said_in(tools: Iterable[Tool]) -> Counter[str]:
    """The words in lower case of the descriptions, each counted once a tool."""
    return Counter(word for tool in tools for word in set(_LOWER_WORD.findall(tool.description)))


def _ordinary(names: Iterable[str], said: frozenset[str]) -> frozenset[str]:
    """The names of which every word is one that people use for something else."""
    used = said | EVERYDAY | STOP_WORDS
    return frozenset(name for name in names if used.issuperset(name.split()))


def aliases(server: str) -> set[str]:
    """The names that a server goes by: in full, without "mcp", "remote" and the like, and without its owner."""
    names = {server.lower()}
    for name in (server, server.rpartition("/")[2]):
        words = re.sub(r"[^\w\s.+&'-]", " ", spaced(name.replace("@", " "))).lower().split()
        core = [word for word in words if word not in _GENERIC]
        for form in (words, core):
            names.update((" ".join(form), "".join(form)))
    useless = _GENERIC | STOP_WORDS
    return {name for name in names if name.strip() and name not in useless and not name.isdigit()}
