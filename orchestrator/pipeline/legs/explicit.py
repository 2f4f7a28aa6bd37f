"""Explicit server: "use X to", "via X", "from the X server", checked against the servers of this catalogue.

In everyday sentences these forms fire often and name a server rarely ("using bullet points"). So a name that is also
an ordinary word counts only in a strong form ("X mcp", "use X to"). A name within what the task leaves out is unwanted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.index.intent import known_actions
from orchestrator.index.servers import GENERIC, ServerIndex, everyday, name_parts
from orchestrator.index.text import STOP_WORDS, stem, vocabulary
from orchestrator.pipeline.clauses import MAX_CUT, QUOTE, left_out_spans, masked
from orchestrator.pipeline.state import State
from orchestrator.records.findings import Explicit, Mention

_WORD = re.compile(r"@?[^\W_][\w.+&'’/-]*[\w+]|[^\W_]|,")
_ARTICLES = frozenset("the my our your this that a an only just".split())
_VERBS = frozenset("use using with via through ask call leverage".split())
_MEANS = frozenset("use using via ask through".split())
"""Verbs behind which a word that nobody knows is a server: behind "with" or "from" most are places and people."""
_PLACES = frozenset("from on in inside within by into to".split())
_NOUNS = frozenset("connector integration plugin".split())
_CUES = _NOUNS | frozenset("use using mcp server".split())
_JOINTS = frozenset(", and or nor &".split())
_OWNED = re.compile(r"['’]s\Z")
_LIKE, _STRANGE = 85, 4
"""The least likeness, of 100, of an unknown word to a server's name that it may stand for, and its letters at least."""


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
        mentions += [mention for mention in found if mention.server in servers.present]
        unknown |= {m.said: () for m in found if m.server in servers.absent and not m.unwanted}
        past = names[-1].end if found else place + 1
        if not found and (end := _unknown_at(wording, servers, place)):
            said = " ".join(wording.said[place:end]).lstrip("@")
            unknown[said] = servers.alike(said)
            past = end
    return Explicit(mentions=tuple(mentions), unknown=unknown)


@dataclass(frozen=True, slots=True)
class _Name:
    """A known name in a text: words[start:end]."""

    start: int
    end: int
    alias: str
    corrected: bool = False


class _Wording:
    """A text's words, as said and in lower case, commas among them, without what is quoted but a single word."""

    def __init__(self, text: str) -> None:
        said = masked(text)
        quotes = QUOTE.finditer(text) if said != text else ()
        single = [quote.span() for quote in quotes if len(quote.group().split()) == 1]
        for start, end in single:
            said = f"{said[:start]} {text[start + 1 : end - 1]} {said[end:]}"
        found = list(_WORD.finditer(said))
        self.quoted = [any(start < word.start() < end for start, end in single) for word in found]
        spans = left_out_spans(text)
        self.said = [word.group() for word in found]
        self.words = [_OWNED.sub("", word.lower()).strip("'’.") or "." for word in self.said]
        self.left_out = [any(start <= word.start() < end for start, end in spans) for word in found]
        self.firsts = {part for word in self.words for part in (word.lstrip("@"), name_parts(word.lstrip("@"))[0])}
        self.strange = [_is_strange(word.lstrip("@")) for word in self.words]
        self.cued = not _CUES.isdisjoint(self.words) or "@" in said
        self.has_cue = self.cued or any(strange and self.is_led(place) for place, strange in enumerate(self.strange))

    def word(self, place: int) -> str:
        return self.words[place] if 0 <= place < len(self.words) else ""

    def is_capital(self, place: int) -> bool:
        return place > 0 and self.said[place][0].isupper()

    def is_strange_name(self, place: int) -> bool:
        """Return whether a word that nobody knows stands where a server's name may."""
        return self.strange[place] and self.is_led(place) and not self.quoted[place]

    def is_led(self, place: int) -> bool:
        """Return whether "use", "on" or the like leads to a place."""
        return self.before(place) in _VERBS | _PLACES or self.word(place).startswith("@")

    def before(self, place: int) -> str:
        """Return the nearest word before a place that is no article; over "X and" in "use X and", too."""
        place -= 1
        while self.word(place) in _ARTICLES:
            place -= 1
        if self.word(place) in _JOINTS and self.word(place - 2) in _VERBS:
            place -= 2
        return self.word(place)

    def stands_alone(self, place: int) -> bool:
        """Return whether a word follows "use", "via" or the like, and a pause, a stop word or an action follows it."""
        if self.word(place - 1) not in _MEANS or self.quoted[place]:
            return False
        after = self.word(place + 1)
        return after in ("", ",") or after in STOP_WORDS or after in known_actions()

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


def _is_strange(word: str) -> bool:
    """Return whether nobody uses a word: neither the language, as the shipped embedding model knows it, nor we here."""
    if len(word) < _STRANGE or word in vocabulary():
        return False
    plain = word.replace("-", "").replace("_", "")
    return plain.isalpha() and bool(plain.strip("q"))  # What is masked is a run of Q.


def _is_nobodys(word: str, servers: ServerIndex) -> bool:
    """Return whether neither the language nor any tool knows a word, in whatever inflection."""
    return word.isalpha() and _is_strange(word) and word not in servers.used and stem(word) not in vocabulary()


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
    """Return a word in a strong form, or one that is no word, which is one slip away from just one name."""
    word = wording.word(place)
    if not word or word in everyday() or word in STOP_WORDS or not wording.has_cue:
        return None
    strong = wording.is_strong(place, place + 1, ordinary=False)
    if not strong and not wording.is_strange_name(place) and not servers.is_kin(word, led=False):
        return None
    near = servers.near(word.lstrip("@"))
    return _Name(place, place + 1, next(iter(near.values())), corrected=True) if len(near) == 1 else None


def _mentions(wording: _Wording, servers: ServerIndex, name: _Name, listed: Sequence[_Name]) -> list[Mention]:
    start, end, ordinary = listed[0].start, listed[-1].end, name.alias in servers.ordinary
    strong = wording.is_strong(name.start, name.end, ordinary=ordinary)
    strong = strong or wording.is_strong(start, end, ordinary=ordinary) or name.corrected
    strong = strong or (not ordinary and name.end == name.start + 1 and len(name_parts(name.alias)) > 1)
    unwanted = wording.left_out[start]
    if not strong:
        before = wording.before(start)
        led = before in _VERBS or unwanted or (before in _PLACES and wording.is_capital(name.start))
        if ordinary or wording.quoted[start] or len(name.alias) < 3 or not led:
            return []
    said = " ".join(wording.words[name.start : name.end]).lstrip("@")
    return [
        Mention(server=server, said=said, strong=strong, unwanted=unwanted, corrected=name.corrected)
        for server in servers.named[name.alias]
    ]


def _unknown_at(wording: _Wording, servers: ServerIndex, place: int) -> int:
    """Return the end of the words from here that name a server which is not known; 0 where none do.

    They stand as a name does in a strong form and look like one, or are built like the name of a known server.
    """
    word, after = wording.word(place).lstrip("@"), wording.word(place + 1)
    if len(word) < 3 or not word[0].isalpha() or word in STOP_WORDS or word in GENERIC or word in servers.named:
        return 0
    if wording.left_out[place]:
        return 0
    if _is_like_a_name(wording, servers, place, word):
        return place + 1
    if (wording.cued or wording.word(place - 1) in _MEANS) and _is_unknown(wording, servers, place, word):
        return place + 1
    if not after.isalnum() or after in STOP_WORDS or after in servers.named:
        return 0
    if not servers.is_kin_in_words(f"{word} {after}"):
        return 0
    names = wording.is_capital(place) and wording.is_capital(place + 1)
    names = wording.is_led(place) and (names or not (word in servers.used or after in servers.used))
    return place + 2 if names or wording.is_strong(place, place + 2, ordinary=True) else 0


def _is_like_a_name(wording: _Wording, servers: ServerIndex, place: int, word: str) -> bool:
    """Return whether a word is built or spelt like the name of a known server, or named as a server with a place."""
    if "-" in word or "_" in word:
        before = wording.before(place)
        led = before in _VERBS or before == "on" or wording.word(place).startswith("@")
        server, _, own = word.partition(".")  # "stripe_test.drop_table", but no "stripe_test.csv"
        if servers.is_kin(server if len(name_parts(own)) > 1 else word, led=led):
            return not wording.quoted[place]
    if wording.word(place + 1) == "server" and wording.before(place) in _PLACES:
        return wording.is_capital(place) or word not in vocabulary()
    return wording.is_strange_name(place) and bool(servers.alike(word, _LIKE))


def _is_unknown(wording: _Wording, servers: ServerIndex, place: int, word: str) -> bool:
    """Return whether a word stands in a strong form and looks like a name."""
    led, after = wording.word(place - 1) in ("use", "using"), wording.word(place + 1)
    if wording.stands_alone(place) and _is_nobodys(word, servers):
        return True
    if wording.quoted[place] and wording.word(place - 1) != "use":  # "using 'localhost' for the host"
        return False
    if not wording.is_strong(place, place + 1, ordinary=True):
        return False
    if word in everyday() and not (after == "mcp" and wording.before(place) in _VERBS):
        return False
    looks_so = wording.is_capital(place) or after in ("mcp", "server") or bool(servers.near(word))
    return looks_so or (led and word not in servers.used) or (after in _NOUNS and _is_nobodys(word, servers))


def explicit(state: State) -> State:
    """Return the servers that the task names; tools of those that it leaves out are allowed no more."""
    said = find_servers(state.task.understood.text, state.task.index.servers)
    state = replace(state, explicit=said, settled=state.settled and not said.wanted)
    catalogue, allowed = state.task.index.catalogue, None
    for server in set(said.unwanted) - set(said.wanted):
        allowed = np.ones(len(catalogue), np.bool_) if allowed is None else allowed
        allowed[catalogue.places.get(server, slice(0))] = False
    return state if allowed is None else state.restricted(allowed)
