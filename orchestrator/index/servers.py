"""The names that the servers of a catalogue go by."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files

from rapidfuzz import fuzz, process

from orchestrator.index.intent import known_actions
from orchestrator.index.text import STOP_WORDS, nearest, spaced

GENERIC = frozenset(
    "mcp server servers remote api apis connector connectors integration plugin tool tools service com io".split()
)
"""Words of a server's name that name no server by themselves."""
_SHORTEST = 4
"""Letters of the shortest name that is found when misspelt."""
_ALIKE, _MOST_ALIKE = 60, 3
"""The least likeness, of 100, of the names that an unknown one may stand for, and how many are listed."""
_JOINS = re.compile(r"[-_]")


class ServerIndex:
    """Servers by the names they go by.

    A name of which every word is an everyday word, or one that tools' descriptions use, is `ordinary`: it names the
    server only in a strong form ("use X to"). Those in `absent` are configured, and have no tools.
    """

    def __init__(self, servers: Iterable[str], used: Collection[str] = (), absent: Collection[str] = ()) -> None:
        """Read the servers' names; `used` are words in lower case that tools' descriptions use."""
        self.present, self.absent = frozenset(servers), frozenset(absent)
        self.named: dict[str, tuple[str, ...]] = {}
        self.longest: dict[str, int] = {}
        for server in sorted(self.present | self.absent):
            for alias in aliases(server):
                self.named[alias] = (*self.named.get(alias, ()), server)
                first, words = alias.partition(" ")[0], alias.count(" ") + 1
                self.longest[first] = max(words, self.longest.get(first, 0))
        self.used = used
        plain = everyday() | STOP_WORDS | {word for alias in self.named for word in alias.split() if word in used}
        self.ordinary = frozenset(alias for alias in self.named if plain.issuperset(alias.split()))
        self._single = [alias for alias in self.named if len(alias) >= _SHORTEST and " " not in alias]
        self._listed, self._aliases = sorted(self.present), sorted(self.named)
        self._kin: dict[str, set[int]] = {}
        self._tails: set[str] = set()
        common = everyday() | STOP_WORDS | GENERIC | known_actions()
        for first, *others in (
            name_parts(server.rpartition("/")[2]) for server in self.present | self.absent if " " not in server
        ):
            if first not in common:
                self._kin.setdefault(first, set()).add(1 + len(others))
            self._tails.update(set(others[-1:]) - common)

    def near(self, word: str) -> dict[str, str]:
        """Return the servers with a name of one word that is one slip away, each with that name."""
        if len(word) < _SHORTEST:
            return {}
        found = nearest(word, self._single)
        return {server: alias for alias in sorted(found) for server in self.named[alias]}

    def alike(self, said: str, least: int = _ALIKE) -> tuple[str, ...]:
        """Return the servers that a name may stand for which none has, the likest first."""
        found = process.extract(said.lower(), self._listed, scorer=fuzz.ratio, score_cutoff=least, limit=_MOST_ALIKE)
        return tuple(server for server, _, _ in found)

    def is_kin(self, said: str, *, led: bool) -> bool:
        """Return whether a word is built like the name of a known server but names no known one, as "stripe-test" is to
        "stripe-live"; led: "on" or the like stands before it, so that it need not have the same number of parts, and
        its last part may be that of a known name ("globex-crm" to "acme-crm")."""
        first, *others = name_parts(said)
        if not others or said in self.named:
            return False
        sizes = self._kin.get(first, ())
        if led:
            return others[-1] in self._tails or (bool(sizes) and not "".join(others).isdigit())
        return first not in self.used and 1 + len(others) in sizes

    def is_kin_in_words(self, said: str) -> bool:
        """Return whether two words begin as a server's name does, and no name begins with both: "Stripe Test"."""
        if said.partition(" ")[0] not in self._kin:
            return False
        place = bisect_left(self._aliases, said)
        return not (place < len(self._aliases) and self._aliases[place].startswith(said))


def name_parts(word: str) -> list[str]:
    """Return the parts of a name in lower case: "stripe-test" has two."""
    return _JOINS.split(word.lower())


@cache
def everyday() -> frozenset[str]:
    """Return common words by which servers are named, too ("memory", "time"): data, not rules."""
    return frozenset((files("orchestrator") / "data" / "everyday.txt").read_text(encoding="utf-8").split())


def aliases(server: str) -> set[str]:
    """Return the names a server goes by: in full, without "mcp", "remote" and the like, and without its owner."""
    names = {server.lower()}
    for name in (server, server.rpartition("/")[2]):
        words = re.sub(r"[^\w\s.+&'-]", " ", spaced(name.replace("@", " "))).lower().split()
        core = [word for word in words if word not in GENERIC]
        for form in (words, core):
            names.update((" ".join(form), "".join(form)))
    useless = GENERIC | STOP_WORDS
    return {name for name in names if name.strip() and name not in useless and not name.isdigit()}
