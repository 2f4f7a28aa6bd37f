"""Conversation: a short turn uses the turns before it, and tools that were used or offered stay available.

Adding earlier turns to complete requests makes the results worse. So only a turn with few words of its own uses them.
Pronouns and answers are not interpreted.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from orchestrator.index.text import terms
from orchestrator.records.request import Turn
from orchestrator.records.tool import Match

MAX_TURNS = 8
"""The maximum number of earlier turns that are read."""
MAX_CHARS = 2_000
"""The maximum number of characters of an earlier turn. A longer text is a pasted document and not a request."""
LEANING = 0.4
"""The weight of the terms of the previous turn. The terms of the turn itself have the weight 1. At 0.6 the previous
terms outweighed a request of one word."""
MOST_OWN = 2
"""The maximum number of words, of three letters or more, of a turn that depends on earlier turns."""
ASKED_NOW = 0.5
"""The minimum share of the best match's probability for a match that this turn asks for."""
MOST_USED = 3
"""The maximum number of used tools that are kept, the latest first. Each takes the place of a match that may be
right."""


def earlier_texts(query: str, conversation: Sequence[Turn]) -> tuple[tuple[str, float], ...]:
    """Return the earlier texts that a turn leans on, latest first, with their weights."""
    if not conversation or _own_words(query) > MOST_OWN:
        return ()
    turns = [turn for turn in conversation[-MAX_TURNS:] if turn.role == "user"]
    said = [turn.text for turn in reversed(turns) if turn.text.strip() and len(turn.text) <= MAX_CHARS]
    leaned: list[tuple[str, float]] = []
    for number, text in enumerate(said, start=1):
        leaned.append((text, LEANING**number))
        if _own_words(text) > MOST_OWN:
            break
    return tuple(leaned)


def _own_words(text: str) -> int:
    return len({term for term in terms(text) if len(term) > 2})


def used_lately(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """Return the keys of the tools used in the last turns, latest first."""
    return tuple(dict.fromkeys(key for turn in reversed(conversation[-MAX_TURNS:]) for key in turn.tools))


def offered_before(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """Return the keys of the tools that the latest turn with an offer offered, in their order."""
    return next((turn.offered for turn in reversed(conversation[-MAX_TURNS:]) if turn.offered), ())


@dataclass(frozen=True, slots=True)
class Kept:
    """The matches, the ones to keep among the first, and True if the turn continues with the earlier offer."""

    matches: list[Match]
    same_topic: bool


def keep_earlier(
    matches: Sequence[Match],
    earlier: Sequence[Match],
    conversation: Sequence[Turn],
    limit: int,
    *,
    leans: bool,
    nothing_fits: bool,
) -> Kept:
    """Return the matches with earlier used or offered tools kept among the first `limit`.

    A turn that leans on earlier turns, or asks for an offered tool, keeps the offer and adds new tools. A turn on
    another topic starts a new offer, and only used tools stay.

    Args:
        matches: The matches.
        earlier: Tools that were used or offered before, as matches.
        conversation: The earlier turns.
        limit: The number of matches.
        leans: The turn leans on earlier turns.
        nothing_fits: No tool matches the turn alone.
    """
    used, offered = used_lately(conversation), offered_before(conversation)
    marks = {**dict.fromkeys(offered, "offered before"), **dict.fromkeys(used, "used earlier in this conversation")}
    shown = {match.tool.key for match in matches[:limit]}
    known = {match.tool.key: match for match in (*earlier, *matches)}
    found = {key: _marked(known[key], mark, shown) for key, mark in marks.items() if key in known}
    matches = [found.get(match.tool.key, match) for match in matches]

    best = max((match.score for match in matches[:limit]), default=0.0)
    now = [] if nothing_fits else [match for match in matches[:limit] if match.score >= ASKED_NOW * best]
    before = [found[key] for key in offered if key in found]
    same_topic = bool(before) and (leans or nothing_fits or not {m.tool.key for m in now}.isdisjoint(offered))
    kept = [found[key] for key in used if key in found][: min(MOST_USED, limit // 2)]
    asked = {match.tool.key for match in now}
    # New tools may take half of an answer that keeps an offer.
    room = -(-limit // 2) if same_topic else limit - sum(match.tool.key not in asked for match in kept)
    wanted = {match.tool.key: match for match in [*now[:room], *kept, *(before if same_topic else matches)]}
    held = list(wanted.values())[:limit]
    place = {match.tool.key: number for number, match in enumerate(matches)}
    held.sort(key=lambda match: place.get(match.tool.key, len(place)))
    keys = {match.tool.key for match in held}
    return Kept([*held, *(match for match in matches if match.tool.key not in keys)], same_topic)


def _marked(match: Match, mark: str, shown: Container[str]) -> Match:
    return match if mark == "offered before" and match.tool.key in shown else replace(match, why=f"{mark}; {match.why}")


def in_order(keys: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Return the keys in the order of the last offer, followed by new keys."""
    place = {key: number for number, key in enumerate(offered)}
    return tuple(sorted(keys, key=lambda key: place.get(key, len(place)))) if place else tuple(keys)
