"""Conversation: a short turn uses the turns before it, and tools that were used or offered stay available.

Adding earlier turns to complete requests makes the results worse. So only a turn with few words uses them.
Pronouns and answers are not interpreted.
"""

from collections.abc import Iterable, Mapping, Sequence
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
MOST_WORDS = 2
"""The maximum number of words, of three letters or more, of a turn that depends on earlier turns."""
ASKED_NOW = 0.5
"""The minimum share of the best match's probability for a match that this turn asks for."""
MOST_USED = 3
"""The maximum number of used tools that are kept, the latest first. Each takes the place of a match that
may be right."""


def earlier_texts(query: str, conversation: Sequence[Turn]) -> tuple[tuple[str, float], ...]:
    """Return the earlier texts that a turn leans on, latest first, with their weights."""
    if not conversation or _count_words(query) > MOST_WORDS:
        return ()
    texts: list[tuple[str, float]] = []
    for turn in reversed(conversation[-MAX_TURNS:]):
        is_readable = turn.text.strip() and len(turn.text) <= MAX_CHARS
        if turn.role != "user" or not is_readable:
            continue
        weight = LEANING ** (len(texts) + 1)
        texts.append((turn.text, weight))
        # A turn with words of its own is where the topic began.
        if _count_words(turn.text) > MOST_WORDS:
            break
    return tuple(texts)


def _count_words(text: str) -> int:
    return len({term for term in terms(text) if len(term) > 2})


def used_lately(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """Return the keys of the tools used in the last turns, latest first."""
    keys: dict[str, None] = {}
    for turn in reversed(conversation[-MAX_TURNS:]):
        keys |= dict.fromkeys(turn.tools)
    return tuple(keys)


def offered_before(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """Return the keys of the tools that the latest turn with an offer offered, in their order."""
    for turn in reversed(conversation[-MAX_TURNS:]):
        if turn.offered:
            return turn.offered
    return ()


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
    nothing_matches: bool,
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
        nothing_matches: No tool matches the turn alone.
    """
    used_keys = used_lately(conversation)
    offered_keys = offered_before(conversation)
    marked = _marked(matches, earlier, limit, offered_keys, used_keys)
    matches = [marked.get(match.tool.key, match) for match in matches]
    matches_of_turn = {} if nothing_matches else _asked_now(matches[:limit])
    offered = [marked[key] for key in offered_keys if key in marked]
    used = [marked[key] for key in used_keys if key in marked][: min(MOST_USED, limit // 2)]
    asks_for_offered = not matches_of_turn.keys().isdisjoint(offered_keys)
    same_topic = bool(offered) and (leans or nothing_matches or asks_for_offered)
    if same_topic:
        room = -(-limit // 2)  # New tools may take half of an answer that keeps an offer.
        further: Sequence[Match] = offered
    else:
        room = limit - sum(match.tool.key not in matches_of_turn for match in used)
        further = matches
    wanted = _by_key([*list(matches_of_turn.values())[:room], *used, *further])
    first = dict(list(wanted.items())[:limit])
    rank = {match.tool.key: number for number, match in enumerate(matches)}
    in_front = sorted(first.values(), key=lambda match: rank.get(match.tool.key, len(rank)))
    behind = [match for match in matches if match.tool.key not in first]
    return Kept([*in_front, *behind], same_topic)


def _by_key(matches: Iterable[Match]) -> dict[str, Match]:
    return {match.tool.key: match for match in matches}


def _asked_now(matches: Sequence[Match]) -> dict[str, Match]:
    """Return the matches that this turn asks for, by key."""
    best = max((match.probability for match in matches), default=0.0)
    return _by_key(match for match in matches if match.probability >= ASKED_NOW * best)


def _marked(
    matches: Sequence[Match],
    earlier: Sequence[Match],
    limit: int,
    offered_keys: Sequence[str],
    used_keys: Sequence[str],
) -> Mapping[str, Match]:
    """Return the earlier offered and used tools by key, with a remark.

    A tool that was only offered needs no remark if it matches this turn, too.
    """
    matches_by_key = _by_key([*earlier, *matches])
    matching = _by_key(matches[:limit])
    marked: dict[str, Match] = {}
    for key in offered_keys:
        if key in matches_by_key:
            match = matches_by_key[key]
            marked[key] = (
                match if key in matching else replace(match, why=f"offered before; {match.why}")
            )
    for key in used_keys:
        if key in matches_by_key:
            match = matches_by_key[key]
            marked[key] = replace(match, why=f"used earlier in this conversation; {match.why}")
    return marked


def in_order(keys: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Return the keys in the order of the last offer, followed by new keys."""
    # An offer that the caller wrote down may name a tool twice.
    offered_before = [key for key in offered if key in keys]
    return tuple(dict.fromkeys((*offered_before, *keys)))
