"""Explicit server: a server's name in the task is evidence for that server, or against it.

It is against the server if a negation is within three words before the name, or if the task excludes it. A name of
ordinary words ("time", "memory") needs a cue: "X mcp", "X server", "@X" or "use X to". Names in a list ("slack, jira
and github") share the words around the list.

On the development sets 254 of 10,231 tasks name a server. In 15 of them no right tool belongs to that server. No task
excludes the server of a right tool, and none has an unknown name near a server's name, such as stripe-test if only
stripe-live is configured. Such a name is asked about, because another environment is not a replacement.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from orchestrator.index.servers import ServerIndex
from orchestrator.pipeline.clauses import MAX_CUT, affirmed, left_out_spans, masked
from orchestrator.pipeline.state import State
from orchestrator.records.findings import Explicit, Mention

_WORD = re.compile(r"@?[^\W_](?:[\w.+&'’/-]*[\w+])?|[^\w\s]|\n")
_IN_BACKTICKS = re.compile(r"`([^`\s]+)`")
_OWNED = re.compile(r"['’]s\Z")
_PAUSE = re.compile(r"[.,;:!?()\n]")
_COMPOUND = re.compile(r"\w[-_]\w")
_ARTICLES = frozenset("the my our your this that a an only just".split())
_JOINTS = frozenset(", and or nor &".split())
_NEAR = 0.6
"""The similarity from which an unknown server name is similar to a known name, such as stripe-test and stripe-live."""
_NEGATED_WITHIN = 3
"""The maximum number of words between a negation and a server's name that the negation excludes."""

Span = tuple[int, int]
"""A name, as the words from start to end: words[start:end]."""


def find_servers(text: str, servers: ServerIndex) -> Explicit:
    """Return the servers that a text names. Quotations name no server, but a word in backticks may."""
    said = masked(_IN_BACKTICKS.sub(r" \1 ", text[:MAX_CUT]))
    found = list(_WORD.finditer(said))
    words = [_OWNED.sub("", word.group().lower()) for word in found]
    mentions: list[Mention] = []
    past = 0
    for names in _lists(words, servers):
        start, end = names[0][0], names[-1][1]
        place = found[start].start()
        # A word of exclusion leaves out the first name after it: "instead of jira use slack".
        unwanted = _is_negated(said[past:place]) or any(past <= a <= place < b for a, b in left_out_spans(said))
        past = found[end - 1].end()
        cued = _is_cued(words, start, end)
        for name in names:
            alias = servers.alias(words, *name)
            if cued or alias not in servers.ordinary or _is_cued(words, *name):
                mentions += [Mention(server=own, said=alias, unwanted=unwanted) for own in servers.named[alias]]
    absent = [m.said for m in mentions if m.server in servers.absent and not m.unwanted]
    return Explicit(
        mentions=tuple(mention for mention in mentions if mention.server in servers.present),
        absent=(*absent, *_unknown(words, servers)),
    )


def _unknown(words: Sequence[str], servers: ServerIndex) -> Iterator[str]:
    """Yield each word used as a server ("use X to", "X mcp") that is written as such names are, and near one's."""
    for place, name in enumerate(words):
        is_used = _COMPOUND.search(name) and name not in servers.named and _is_used(words, place, place + 1)
        if is_used and difflib.get_close_matches(name, servers.named, 1, _NEAR):
            yield name


def _lists(words: Sequence[str], servers: ServerIndex) -> Iterator[list[Span]]:
    """Yield the names among these words. Names with only commas, "and" or "or" between them form one list."""
    names: list[Span] = []
    for start, end in servers.names(words):
        between = words[names[-1][1] : start] if names else ()
        if names and not (between and _JOINTS.issuperset(between)):
            yield names
            names = []
        names.append((start, end))
    if names:
        yield names


def _is_negated(before: str) -> bool:
    """Return True if a negation is among the last words of the clause that ends the text."""
    last = " ".join(_PAUSE.split(before)[-1].split()[-_NEGATED_WITHIN:])
    return affirmed(last) != last


def _is_cued(words: list[str], start: int, end: int) -> bool:
    """Return True if words[start:end] occur as in "X mcp", "X server", "@X" or "use X to"."""
    return _is_used(words, start, end) or words[end : end + 1] == ["server"] or words[start].startswith("@")


def _is_used(words: Sequence[str], start: int, end: int) -> bool:
    """Return True if words[start:end] occur as in "X mcp" or "use X to"."""
    after = words[end] if end < len(words) else ""
    before = next((word for word in reversed(words[:start]) if word not in _ARTICLES), "")
    return after == "mcp" or (before in ("use", "using") and after in ("to", "for"))


def explicit(state: State) -> State:
    """Return the servers that the task names. Tools of excluded servers are no longer allowed."""
    said = find_servers(state.task.understood.text, state.task.index.servers)
    state = replace(state, explicit=said, settled=state.settled and not said.wanted)
    catalogue, allowed = state.task.index.catalogue, None
    for server in set(said.unwanted) - set(said.wanted):
        allowed = np.ones(len(catalogue), np.bool_) if allowed is None else allowed
        allowed[catalogue.places.get(server, slice(0))] = False
    return state if allowed is None else state.restricted(allowed)
