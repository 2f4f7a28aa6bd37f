"""The names that the servers of a catalogue go by.

io.github.acme/postgres-mcp-server  ->  "postgres", "io.github.acme/postgres-mcp-server", ...
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from orchestrator.index.text import STOP_WORDS, spaced

_NO_NAME = re.compile(r"[^\w\s.+&'-]")
"""Signs that no name of a server has."""
GENERIC = frozenset(
    "mcp server servers remote api apis connector connectors integration plugin tool tools service com io".split()
)
"""Words of server names that do not identify a server by themselves."""
_NO_ALIASES = GENERIC | STOP_WORDS


class ServerIndex:
    """Servers by their names.

    Attributes:
        present: The servers with tools.
        absent: Servers that are configured but have no tools.
        named: The servers of each name.
        everyday: The names whose words are all everyday words, or have one or two letters.
        ordinary: The same, but a word in tools' descriptions counts as everyday, too. Such a name rarely
            means the server.
    """

    def __init__(
        self, servers: Iterable[str], used: Collection[str] = (), absent: Collection[str] = ()
    ) -> None:
        """Read the servers' names. `used` are the lower-case words of tools' descriptions."""
        self.present = frozenset(servers)
        self.absent = frozenset(absent)
        self.named: dict[str, tuple[str, ...]] = {}
        self._longest: dict[str, int] = {}
        for server in sorted(self.present | self.absent):
            for alias in aliases(server):
                self._add(alias, server)
        common = everyday() | STOP_WORDS
        words_of_names = set(" ".join(self.named).split())
        described = common | words_of_names.intersection(used)
        self.ordinary = frozenset(alias for alias in self.named if _consists_of(alias, described))
        self.everyday = frozenset(alias for alias in self.ordinary if _consists_of(alias, common))

    def _add(self, alias: str, server: str) -> None:
        words = alias.split(" ")
        self.named[alias] = (*self.named.get(alias, ()), server)
        self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

    def names(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield each name among words in lower case as words[start:end], the longest where several begin."""
        start = 0
        while start < len(words):
            end = self.end_of_name(words, start)
            if end:
                yield start, end
            start = end or start + 1

    def end_of_name(self, words: Sequence[str], start: int) -> int:
        """Return the end of the longest name that begins here, or 0."""
        longest = self._longest.get(words[start].lstrip("@"))
        if not longest:
            return 0
        for end in range(min(start + longest, len(words)), start, -1):
            if self.alias(words, start, end) in self.named:
                return end
        return 0

    def alias(self, words: Sequence[str], start: int, end: int) -> str:
        """Return words[start:end] as a name.

        Args:
            words: The words of a text.
            start: The first word.
            end: The word after the last.
        """
        return " ".join(words[start:end]).lstrip("@")


def _consists_of(alias: str, words: frozenset[str]) -> bool:
    """Return True if each word of a name is one of these words, or has one or two letters."""
    return all(word in words or len(word) <= 2 for word in alias.split())


@cache
def everyday() -> frozenset[str]:
    """Return common words by which servers are named, too ("memory", "time"): data, not rules."""
    return frozenset(
        (files("orchestrator") / "data" / "everyday.txt").read_text(encoding="utf-8").split()
    )


def aliases(server: str) -> set[str]:
    """Return the names a server goes by: in full, without "mcp", "remote" and the like, and without its owner."""
    names = {server.lower()}
    _, _, without_owner = server.rpartition("/")
    for name in {server, without_owner}:
        plain = _NO_NAME.sub(" ", spaced(name.replace("@", " ")))
        words = plain.lower().split()
        specific_words = [word for word in words if word not in GENERIC]
        for alias_words in (words, specific_words):
            names.add(" ".join(alias_words))
            names.add("".join(alias_words))
    return {name for name in names - _NO_ALIASES if name.strip() and not name.isdigit()}
