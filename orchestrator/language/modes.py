"""Modes: whether a verb tells something or changes something, and which of the two a tool does."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from orchestrator.index.text import spaced, stem
from orchestrator.language.verbs import ACTIONS, ACTIONS_OR_THINGS
from orchestrator.records.tool import Kind, Tool

TELLS: Final = 1
CHANGES: Final = -1
UNSAID: Final = 0
"""A mode that fits another has the same sign."""
STARTS: Final = -2
"""A workflow: whatever it is called, it may change something, and is no answer to a question about a deed."""
TELLS_OF_A_DEED: Final = 2
"""Asks how something stands or what was done, and so not to do it."""

TELLING = frozenset(
    """access analyse analyze browse check collect compare count crawl describe determine dig discover display explain
    explore fetch find gather get google grab identify inspect know list locate look lookup monitor obtain peek provide
    query read recommend retrieve return scrape search see show skim suggest summarise summarize track view""".split()
)
TAKING = frozenset("collect monitor return track".split())
"""Of these it may be either: "return the shoes", "track two hours"."""
_NEITHER = frozenset(
    """ask assess audit begin calculate categorize chart choose classify compose compute conduct convert debug decode
    decrypt define design detect diagnose download draw dump encode encrypt enrich ensure estimate evaluate execute
    export extract filter finish follow format generate geocode guess invoke keep learn let lint map match measure
    name normalize open optimize parse perform pick place play plot poll predict preview price print process profile
    pull quote rank rate rephrase research resolve review rewrite run sample scan score select simulate solve sort
    study take tell test transcribe translate use validate verify visualize wait watch weigh""".split()
)
"""What may be done either way ("open the page", "export the list"), or works something out."""
CHANGING = (ACTIONS | ACTIONS_OR_THINGS) - TELLING - _NEITHER
_SURELY = ACTIONS & CHANGING
_HARDLY = TAKING | frozenset("access check display provide".split())
"""These begin a tool's name as the thing that it is about, too."""
_TELLING_TERMS, CHANGING_TERMS, _SURELY_TERMS = (
    frozenset(map(stem, verbs)) - {""} for verbs in (TELLING, CHANGING, _SURELY)
)
_PROCESSES = frozenset("build deploy enroll install merge migrate publish purchase release restore sync upload".split())
_TOLD_OF = frozenset("count details errors history log progress status".split())
"""A name of these two ("build_status", "deploy_history") begins with no verb, but with what it tells of; unless its
description begins with a verb that changes something ("upload_logs": "Upload the logs")."""
_JOINING = frozenset(("and", "or", "then"))
_BEGINS = re.compile(
    r"\W*(?P<verbs>[A-Za-z]+(?:(?:,|,? and|,? or|/) ?[A-Za-z]+)*)"
    r"(?P<object> (?:an?|the|one|new|multiple|several|your|existing)\b)?"
)
"""What a description begins with, and an object behind it, which tells verbs from things ("order history")."""


def done_by(tool: Tool) -> int:
    """What a tool does, by its hint, else by the verb of its name or the first words of its description; agents may do
    either, whatever they are called. A word that may be a thing, too, is a verb where the hint says that it changes
    something (`record_payment`)."""
    if tool.annotations.read_only:
        return TELLS
    if tool.kind is Kind.WORKFLOW:
        return STARTS
    if tool.kind is Kind.AGENT:
        return UNSAID
    said = _said_of(tool.name, tool.server, tool.description[:40])
    if tool.annotations.read_only is False and own_words(tool.name, tool.server)[0] in CHANGING:
        return CHANGES
    return said


def changes(tool: Tool) -> bool:
    """Whether a tool changes something, or starts a workflow, which may."""
    return done_by(tool) in (CHANGES, STARTS)


@lru_cache(maxsize=100_000)
def own_words(name: str, server: str) -> tuple[str, ...]:
    """The words of a tool's name without those of its server, in lower case: "stripe_cancel_order" says cancel, order.
    At least one, which may be empty."""
    others = set(spaced(server).lower().split())
    return tuple(word for word in spaced(name).lower().split() if word not in others) or ("",)


@lru_cache(maxsize=100_000)
def _said_of(name: str, server: str, description: str) -> int:
    words = own_words(name, server)
    if _joins_both(words):
        return UNSAID
    if words[0] in TELLING - _HARDLY or (words[0] in _PROCESSES and words[-1] in _TOLD_OF and _tells_of(description)):
        return TELLS
    if words[0] in _SURELY or words[-1] in _SURELY:
        return CHANGES
    begins = _BEGINS.match(description)
    said = re.findall("[a-z]+", begins["verbs"].lower()) if begins else []
    verbs = [stem(verb) for verb in said if verb not in _JOINING] or [""]
    if not _TELLING_TERMS.isdisjoint(verbs) and not CHANGING_TERMS.isdisjoint(verbs):
        return UNSAID
    if verbs[0] in _TELLING_TERMS or words[-1] in TELLING:
        return TELLS
    return CHANGES if verbs[0] in (CHANGING_TERMS if begins and begins["object"] else _SURELY_TERMS) else UNSAID


def _tells_of(description: str) -> bool:
    """Whether a description begins with no verb that changes something: "Build status of a branch" does not."""
    first, second = [*re.findall("[a-z]+", description.lower()), "", ""][:2]
    return bool(first) and (stem(first) not in CHANGING_TERMS or second in _TOLD_OF)


def _joins_both(words: Sequence[str]) -> bool:
    """Whether a name joins an action of the other mode to its first: "get_or_create", but "list_likes_and_views"."""
    joined = [words[place + 1] for place, word in enumerate(words[:-1]) if word in _JOINING]
    if words[0] in TELLING:
        both = len(words) > 2 and words[1] in _JOINING and words[2] not in TELLING
        return both or not _SURELY.isdisjoint(joined)
    return words[0] in _SURELY and not TELLING.isdisjoint(joined)
