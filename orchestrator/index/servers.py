"""The names that the servers of a catalogue go by."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from orchestrator.index.text import STOP_WORDS, spaced

GENERIC = frozenset(
    "mcp server servers remote api apis connector connectors integration plugin tool tools service com io".split()
)
"""Words of server names that do not identify a server by themselves."""


class ServerIndex:
    """Servers by their names.

    A name is `ordinary` if each of its words is an everyday word, a word in tools' descriptions, or has one or two
    letters. Such a name rarely means the server. Servers in `absent` are configured but have no tools.
    """

    def __init__(self, servers: Iterable[str], used: Collection[str] = (), absent: Collection[str] = ()) -> None:
        """Read the servers' names. `used` are the lower-case words of tools' descriptions."""
        self.present, self.absent = frozenset(servers), frozenset(absent)
        self.named: dict[str, tuple[str, ...]] = {}
        self._longest: dict[str, int] = {}
        for server in sorted(self.present | self.absent):
            for alias in aliases(server):
                self.named[alias] = (*self.named.get(alias, ()), server)
                first, words = alias.partition(" ")[0], alias.count(" ") + 1
                self._longest[first] = max(words, self._longest.get(first, 0))
        plain = everyday() | STOP_WORDS | {word for alias in self.named for word in alias.split() if word in used}
        self.ordinary = frozenset(
            alias for alias in self.named if plain.issuperset(word for word in alias.split() if len(word) > 2)
        )

    def names(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield each name among words in lower case as words[start:end], the longest where several begin."""
        start = 0
        while start < len(words):
            if end := self.end_of_name(words, start):
                yield start, end
            start = end or start + 1

    def end_of_name(self, words: Sequence[str], start: int) -> int:
        """Return the end of the longest name that begins here, or 0."""
        if not (longest := self._longest.get(words[start].lstrip("@"))):
            return 0
        ends = range(min(start + longest, len(words)), start, -1)
        return next((end for end in ends if self.alias(words, start, end) in self.named), 0)

    def alias(self, words: Sequence[str], start: int, end: int) -> str:
        """Return words[start:end] as a name.

        Args:
            words: The words of a text.
            start: The first word.
            end: The word after the last.
        """
        return " ".join(words[start:end]).lstrip("@")


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
