"""Explicit server: "use X to", "via X", "from the X server", checked against the servers of this catalogue.

In everyday sentences these forms fire often and name a server rarely ("using bullet points"). So a name that is also
an ordinary word counts only in a strong form ("X mcp", "use X to"). A name within what the task leaves out is unwanted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.servers import GENERIC, ServerIndex, everyday
from orchestrator.index.text import STOP_WORDS
from orchestrator.records.findings import Explicit, Mention
from orchestrator.routing.clauses import MAX_CUT, left_out_spans, masked

if TYPE_CHECKING:
    from orchestrator.routing.task import Found, Task

_WORD = re.compile(r"@?[^\W_][\w.+&'’/-]*[\w+]|[^\W_]|,")
_ARTICLES = frozenset("the my our your this that a an only just".split())
_VERBS = frozenset("use using with via through ask call leverage".split())
_PLACES = frozenset("from on in inside within by into to".split())
_NOUNS = frozenset("connector integration plugin".split())
_CUES = _NOUNS | frozenset("use using mcp server".split())
_JOINTS = frozenset(", and or nor &".split())


def find_servers(text: str, servers: ServerIndex) -> Explicit:
    """Return every server that the text names, and the unknown ones that it names in a strong form."""
    wording = _Wording(text[:MAX_CUT])
    if not wording.has_cue and servers.longest.keys().isdisjoint(wording.firsts):
        return Explicit()
    mentions: list[Mention] = []
    unknown: dict[str, tuple[str, ...]] = {}
    past = 0
    for place in range(len(wording.words)):
        if place < past:
            continue
        names = _names_at(wording, servers, place)
        found = [mention for name in names for mention in _mentions(wording, servers, name, names)]
        mentions += found
        if not found and wording.has_cue and (said := _unknown_at(wording, servers, place)):
            near = (server for alias in servers.near(said.lower()) for server in servers.named[alias])
            unknown[said] = tuple(dict.fromkeys(near))[:3]
        past = names[-1].end if found else place + 1
    return Explicit(mentions=tuple(mentions), unknown=unknown)


@dataclass(frozen=True, slots=True)
class _Name:
    """A known name in a text: words[start:end]."""

    start: int
    end: int
    alias: str
    corrected: bool = False


class _Wording:
    """A text's words, as said and in lower case, commas among them, without what is quoted."""

    def __init__(self, text: str) -> None:
        said = masked(text)
        found = list(_WORD.finditer(said))
        spans = left_out_spans(text)
        self.said = [word.group() for word in found]
        self.words = [word.lower().strip("'’.") or "." for word in self.said]
        self.left_out = [any(start <= word.start() < end for start, end in spans) for word in found]
        self.has_cue = not _CUES.isdisjoint(self.words)
        self.firsts = {word.lstrip("@") for word in self.words}

    def word(self, place: int) -> str:
        return self.words[place] if 0 <= place < len(self.words) else ""

    def is_capital(self, place: int) -> bool:
        return place > 0 and self.said[place][0].isupper()

    def before(self, place: int) -> str:
        """Return the nearest word before a place that is no article; over "X and" in "use X and", too."""
        place -= 1
        while self.word(place) in _ARTICLES:
            place -= 1
        if self.word(place) in _JOINTS and self.word(place - 2) in _VERBS:
            place -= 2
        return self.word(place)

    def is_strong(self, start: int, end: int, *, ordinary: bool) -> bool:
        """Return whether words[start:end] stand as in "use X to", "X mcp", "from the X server", "@X", "don't use X"."""
        before, after = self.before(start), self.word(end)
        if self.words[start].startswith("@") or after == "mcp":
            return True
        if after == "server":
            return before in _VERBS or before in ("from", "no") or self.left_out[start]
        if after in _NOUNS:
            return not ordinary or before in _VERBS
        if before in ("use", "using") and (after in ("to", "for") or (after == "and" and not ordinary)):
            return True
        ends = end == len(self.words) or not self.left_out[end]
        return before in ("use", "using", "via") and self.left_out[start] and ends


def _names_at(wording: _Wording, servers: ServerIndex, place: int) -> list[_Name]:
    """Return the known name that starts here, and those listed after it ("slack, jira and github")."""
    name = _known_at(wording, servers, place) or _misspelt_at(wording, servers, place)
    names = [name] if name else []
    while name:
        after = name.end
        while wording.word(after) in _JOINTS:
            after += 1
        name = _known_at(wording, servers, after) if after > name.end else None
        names += [name] if name else []
    return names


def _known_at(wording: _Wording, servers: ServerIndex, place: int) -> _Name | None:
    longest = servers.longest.get(wording.word(place).lstrip("@"), 0)
    for end in range(min(place + longest, len(wording.words)), place, -1):
        alias = " ".join(wording.words[place:end]).lstrip("@")
        if alias in servers.named:
            return _Name(place, end, alias)
    return None


def _misspelt_at(wording: _Wording, servers: ServerIndex, place: int) -> _Name | None:
    """Return a word in a strong form that is one slip away from just one name."""
    word = wording.word(place)
    if word in everyday() or word in STOP_WORDS or not wording.has_cue:
        return None
    if not wording.is_strong(place, place + 1, ordinary=False):
        return None
    near = servers.near(word.lstrip("@"))
    return _Name(place, place + 1, near[0], corrected=True) if len(near) == 1 else None


def _mentions(wording: _Wording, servers: ServerIndex, name: _Name, listed: Sequence[_Name]) -> list[Mention]:
    start, end, ordinary = listed[0].start, listed[-1].end, name.alias in servers.ordinary
    strong = wording.is_strong(name.start, name.end, ordinary=ordinary)
    strong = strong or wording.is_strong(start, end, ordinary=ordinary)
    unwanted = wording.left_out[start]
    if not strong:
        before = wording.before(start)
        led = before in _VERBS or unwanted or (before in _PLACES and wording.is_capital(name.start))
        if ordinary or name.corrected or len(name.alias) < 3 or not led:
            return []
    said = " ".join(wording.words[name.start : name.end]).lstrip("@")
    return [
        Mention(server=server, said=said, strong=strong, unwanted=unwanted, corrected=name.corrected)
        for server in servers.named[name.alias]
    ]


def _unknown_at(wording: _Wording, servers: ServerIndex, place: int) -> str | None:
    """Return a word that stands where a name stands in a strong form and looks like one, as it was written."""
    word, after = wording.word(place), wording.word(place + 1)
    if len(word) < 3 or not word[0].isalpha() or word in STOP_WORDS or word in GENERIC or word in servers.named:
        return None
    if wording.left_out[place] or not wording.is_strong(place, place + 1, ordinary=True):
        return None
    if word in everyday() and not (after == "mcp" and wording.before(place) in _VERBS):
        return None
    looks_so = wording.is_capital(place) or after in ("mcp", "server") or servers.near(word)
    no_noun = wording.word(place - 1) in ("use", "using") and word not in servers.used
    return wording.said[place] if looks_so or no_noun else None


def explicit(task: "Task", found: "Found") -> "Found":
    """Return the servers that the task names, and which tools filters and the task leave allowed."""
    said = find_servers(task.understood.text, task.index.servers)
    unwanted = set(said.unwanted) - set(said.wanted)
    if not said.wanted and not unwanted and not task.request.filters:
        return replace(found, explicit=said)
    allowed = _allowed(task, unwanted) if unwanted or task.request.filters else None
    always = found.always if allowed is None else {tool: own for tool, own in found.always.items() if allowed[tool]}
    return replace(found, explicit=said, allowed=allowed, always=always, settled=False)


def _allowed(task: "Task", unwanted: set[str]) -> NDArray[np.bool_]:
    keyword = task.index.keyword
    allowed = ~np.isin(keyword.server_of, [keyword.servers.index(server) for server in unwanted])
    for label in task.request.filters.items():
        having = np.zeros_like(allowed)
        having[task.index.labelled.get(label, [])] = True
        allowed &= having
    return allowed


def positions_of(task: "Task", servers: Sequence[str]) -> NDArray[np.int64] | None:
    """Return the positions of these servers' tools; None for no servers."""
    keyword = task.index.keyword
    known = [keyword.servers.index(server) for server in servers if server in keyword.servers]
    return np.isin(keyword.server_of, known).nonzero()[0] if known else None
