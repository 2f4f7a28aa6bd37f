"""Explicit server: a server's name in the task is evidence for that server, or against it.

    search the issues of last week, not with sentry     excludes sentry
    use slack to post it                                wants slack
    tell me the time                                    names no server, though one is called "time"

It is against the server if a negation is within three words before the name. A name of ordinary words ("time",
"memory") needs a cue: "X mcp", "X server", "@X" or "use X to". Names in a list ("slack, jira and github") share the
words around the list. To exclude a server, its name needs a cue only if it is an everyday word. A further cue is then
"not with X" or "don't use X" at the end of a clause.

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
from orchestrator.pipeline.clauses import MAX_CUT, affirmed, exclusions, masked
from orchestrator.pipeline.state import State
from orchestrator.records.findings import Explicit, Mention

_WORD = re.compile(r"@?[^\W_](?:[\w.+&'’/-]*[\w+])?|[^\w\s]|\n")
_IN_BACKTICKS = re.compile(r"`([^`\s]+)`")
_OWNED = re.compile(r"['’]s\Z")
_PAUSE = re.compile(r"[.,;:!?()\n]")
_COMPOUND = re.compile(r"\w[-_]\w")
_ARTICLES = frozenset("the my our your this that a an only just".split())
_JOINTS = frozenset(", and or nor &".split())
_REFUSING = frozenset("use using with without but".split())
_NEAR = 0.6
"""The similarity from which an unknown server name is similar to a known name, such as stripe-test and stripe-live."""
_NEGATED_WITHIN = 3
"""The maximum number of words between a negation and a server's name that the negation excludes."""

Span = tuple[int, int]
"""A name, as the words from start to end: words[start:end]."""


def find_servers(text: str, servers: ServerIndex) -> Explicit:
    """Return the servers that a text names. Quotations name no server, but a word in backticks may."""
    unquoted = masked(_IN_BACKTICKS.sub(r" \1 ", text[:MAX_CUT]))
    tokens = list(_WORD.finditer(unquoted))
    words = [_OWNED.sub("", token.group().lower()) for token in tokens]
    excluded = list(exclusions(unquoted))
    mentions: list[Mention] = []
    last_end = 0
    for names in _lists(words, servers):
        start = names[0][0]
        end = names[-1][1]
        position = tokens[start].start()
        # An exclusion leaves out the first names in it: "without jira use slack".
        in_exclusion = any(last_end <= begin <= position < stop for begin, stop in excluded)
        unwanted = in_exclusion or _is_negated(unquoted[last_end:position])
        last_end = tokens[end - 1].end()
        list_has_cue = _is_cued(words, start, end)
        for name in names:
            has_cue = (
                list_has_cue or _is_cued(words, *name) or (unwanted and _is_refused(words, *name))
            )
            mentions += _mentions(
                servers, servers.alias(words, *name), unwanted=unwanted, has_cue=has_cue
            )
    absent = [
        mention.said
        for mention in mentions
        if mention.server in servers.absent and not mention.unwanted
    ]
    return Explicit(
        mentions=tuple(mention for mention in mentions if mention.server in servers.present),
        absent=(*absent, *_unknown(words, servers)),
    )


def _mentions(servers: ServerIndex, alias: str, *, unwanted: bool, has_cue: bool) -> list[Mention]:
    """Return the servers that a name means, none for a name of ordinary words without a cue."""
    ordinary = servers.everyday if unwanted else servers.ordinary
    if alias in ordinary and not has_cue:
        return []
    return [
        Mention(server=server, said=alias, unwanted=unwanted) for server in servers.named[alias]
    ]


def _unknown(words: Sequence[str], servers: ServerIndex) -> Iterator[str]:
    """Yield each word used as a server ("use X to", "X mcp") that is written as such names are, and near one's."""
    for number, name in enumerate(words):
        is_unknown = _COMPOUND.search(name) and name not in servers.named
        if not is_unknown or not _is_used(words, number, number + 1):
            continue
        if difflib.get_close_matches(name, servers.named, 1, _NEAR):
            yield name


def _lists(words: Sequence[str], servers: ServerIndex) -> Iterator[list[Span]]:
    """Yield the names among these words. Names with only commas, "and" or "or" between them form one list."""
    names: list[Span] = []
    for start, end in servers.names(words):
        between = words[names[-1][1] : start] if names else ()
        is_continued = bool(between) and _JOINTS.issuperset(between)
        if names and not is_continued:
            yield names
            names = []
        names.append((start, end))
    if names:
        yield names


def _is_negated(before: str) -> bool:
    """Return True if a negation is among the last words of the clause that ends the text."""
    clause = _PAUSE.split(before)[-1]
    last_words = " ".join(clause.split()[-_NEGATED_WITHIN:])
    return affirmed(last_words) != last_words


def _is_cued(words: Sequence[str], start: int, end: int) -> bool:
    """Return True if words[start:end] occur as in "X mcp", "X server", "@X" or "use X to"."""
    if words[start].startswith("@") or list(words[end : end + 1]) == ["server"]:
        return True
    return _is_used(words, start, end)


def _is_used(words: Sequence[str], start: int, end: int) -> bool:
    """Return True if words[start:end] occur as in "X mcp" or "use X to"."""
    after = words[end] if end < len(words) else ""
    if after == "mcp":
        return True
    before = [word for word in words[:start] if word not in _ARTICLES]
    return after in ("to", "for") and before[-1:] in (["use"], ["using"])


def _is_refused(words: Sequence[str], start: int, end: int) -> bool:
    """Return True if words[start:end] end a clause after "use", "with", "without" or "but".

    Of 11,125 development tasks, with the names of 1,515 public servers, 2 exclude a server by this or any other form.
    """
    ends_clause = end == len(words) or _PAUSE.fullmatch(words[end]) is not None
    before = [word for word in words[:start] if word not in _ARTICLES]
    return ends_clause and not _REFUSING.isdisjoint(before[-1:])


def explicit(state: State) -> State:
    """Return the servers that the task names. Tools of excluded servers are no longer allowed."""
    index = state.task.index
    servers = find_servers(state.task.understood.text, index.servers)
    if not servers.mentions:
        return replace(state, explicit=servers) if servers.absent else state
    wanted = servers.wanted
    state = replace(state, explicit=servers, settled=state.settled and not wanted)
    excluded = set(servers.unwanted).difference(wanted)
    if not excluded:
        return state
    allowed = np.ones(len(index.tools), np.bool_)
    for server in excluded:
        allowed[index.catalogue.places.get(server, slice(0))] = False
    return state.restricted(allowed)
