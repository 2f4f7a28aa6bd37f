"""The names that the servers of a catalogue go by."""

import re
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files

from orchestrator.index.text import STOP_WORDS, nearest, spaced

GENERIC = frozenset(
    "mcp server servers remote api apis connector connectors integration plugin tool tools service com io".split()
)
"""Words of a server's name that name no server by themselves."""
_SHORTEST = 4
"""Letters of the shortest name that is found when misspelt."""


class ServerIndex:
    """Servers by the names they go by.

    A name of which every word is an everyday word, or one that tools' descriptions use, is `ordinary`: it names the
    server only in a strong form ("use X to").
    """

    def __init__(self, servers: Iterable[str], used: Collection[str] = ()) -> None:
        """Read the servers' names; `used` are words in lower case that tools' descriptions use."""
        self.named: dict[str, tuple[str, ...]] = {}
        self.longest: dict[str, int] = {}
        for server in servers:
            for alias in aliases(server):
                self.named[alias] = (*self.named.get(alias, ()), server)
                first, words = alias.partition(" ")[0], alias.count(" ") + 1
                self.longest[first] = max(words, self.longest.get(first, 0))
        self.used = used
        plain = everyday() | STOP_WORDS | {word for alias in self.named for word in alias.split() if word in used}
        self.ordinary = frozenset(alias for alias in self.named if plain.issuperset(alias.split()))

    def near(self, word: str) -> list[str]:
        """Return the names of one word that are one slip away."""
        if len(word) < _SHORTEST:
            return []
        return sorted(nearest(word, (alias for alias in self.named if len(alias) >= _SHORTEST and " " not in alias)))


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
