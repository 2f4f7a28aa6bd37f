"""Modes: whether a task wants to be told something or to have something changed, and which of the two a tool does."""

import re
from functools import lru_cache
from typing import Final

from orchestrator.language.clauses import bare
from orchestrator.language.everyday import ACTIONS, ACTIONS_OR_THINGS
from orchestrator.models import Tool
from orchestrator.text import spaced, stem

TELLS: Final = 1
CHANGES: Final = -1
UNSAID: Final = 0
"""A mode that fits another has the same sign."""

_TELLING = frozenset(
    """access analyse analyze browse check collect compare count crawl describe determine dig discover display download
    explain explore fetch find gather get google grab identify inspect know list locate look lookup monitor obtain
    peek provide query read recommend retrieve return scrape search see show skim suggest summarise summarize track
    view""".split()
)
_NEITHER = frozenset(
    """ask begin calculate compose compute convert decode draw encode enrich estimate evaluate execute extract finish
    follow format generate guess help invoke keep learn let map match measure name open parse perform pick place play
    plot predict process pull rank rate resolve run sample score simulate solve sort take tell test think transcribe
    translate try use validate verify wait watch weigh""".split()
)
"""What may be done either way ("make a list", "open the page"), or works something out."""
_CHANGING = (ACTIONS | ACTIONS_OR_THINGS) - _TELLING - _NEITHER
_SURELY = ACTIONS & _CHANGING
_HARDLY = frozenset("monitor display track check".split())
"""These begin a tool's name as the thing that it is about, too."""
_TELLING_TERMS, _CHANGING_TERMS, _SURELY_TERMS = (
    frozenset(map(stem, verbs)) for verbs in (_TELLING, _CHANGING, _SURELY)
)

_REQUEST = re.compile(
    r"(?i)\b(?:(?:can|could|would|will) (?:you|we|i)|i(?:['’]d| would) (?:like|love|prefer)(?: you)? to"
    r"|i (?:want|need)(?: you)? to|please|help me|let['’]s|let us)\b,?"
    r"(?:\s+(?:please|also|kindly|just|help me|help|to|you|and|now|then|quickly))*\s+(?P<asked>[a-z]+\b.*)"
)
_ASKS = re.compile(
    r"(?i)(?:\A|[.!,;:\n][^\S\n]?)(?:(?:so|and|but|ok|okay|hey|hi|also)\W+)*"
    r"(?:what|which|who|whose|whom|where|when|why|how|is|are|was|were|do|does|did|has|have|any"
    r"|was|wer|wie|wo|wann|welche[rs]?|wieviele?|quels?|quelles?|qui|comment|combien|où|quand"
    r"|qué|cuál(?:es)?|cuánt[oa]s?|dónde|cuándo|cómo|quién|quais|quanto|onde)\b|[?？]\s*\Z"
)
_MAY = re.compile(
    r"(?i)\b(?:can|could|would|will|should|shall|may|kannst|könnte(?:st|n)?|können|würdest|peux|pou(?:vez|rrais|rriez)"
    r"|puedes?|podrías?|pode|poderia|puoi|potresti)\b"
)
"""What asks for an action in the form of a question."""
_NEW = re.compile(r"(?i)(?:make\s+(?:an?|the|new|another|\w+s)|open\s+(?:an?|new|another))\b")
_LISTS = re.compile(
    r"(?i)(?:build|compile|create|draft|give|make|prepare|produce|put|send|write)\s+(?:me\s+|us\s+)?an?\s+(?:\w+\s+){0,2}"
    r"(?:list|listing|summary|report|overview|table|comparison|breakdown|digest|recap)\b"
)
"""What makes nothing but an answer."""
_THEN = re.compile(r"(?i)(?:,|\band|\bthen|\bor|;)\s+(?:(?:and|then|please|also)\s+)*(?=(?P<asked>[a-z]+\b.{0,60}))")
_ANSWERS = re.compile(r"(?i)(?:give|send|tell|get|bring|make)\s+(?:me|us)\b")
_BEGINS = re.compile(r"\W*(?P<verb>[A-Za-z]+)(?P<object> (?:an?|the|one|new|multiple|several|your|existing)\b)?")
"""What a description begins with, and an object behind it, which tells verbs from things ("order history")."""


def wanted(part: str) -> int:
    """What a part of a task wants; UNSAID where it does not say, and where it says both."""
    said = _wanted_first(part)
    others = (_of_deed(found["asked"]) for found in _THEN.finditer(part)) if said else ()
    return UNSAID if any(other == -said for other in others) else said


def _wanted_first(part: str) -> int:
    if request := _REQUEST.search(part):
        return _of_deed(request["asked"])
    if said := _of_deed(bare(part)):
        return said
    return TELLS if _ASKS.search(part) and not _MAY.search(part) else UNSAID


def _of_deed(deed: str) -> int:
    """What an action wants, by its verb and what stands behind it."""
    verb = deed.partition(" ")[0].lower().strip(",:.;")
    if verb in _TELLING or _ANSWERS.match(deed):
        return TELLS
    if verb == "give" or (verb in ("make", "open") and _NEW.match(deed)):
        return UNSAID if _LISTS.match(deed) else CHANGES
    return CHANGES if verb in _CHANGING and not _LISTS.match(deed) else UNSAID


def done_by(tool: Tool) -> int:
    """What a tool does, by its hint, else by the verb of its name or the first word of its description."""
    return TELLS if tool.annotations.read_only else _said_of(tool.name, tool.server, tool.description[:40])


@lru_cache(maxsize=100_000)
def _said_of(name: str, server: str, description: str) -> int:
    own = set(spaced(server).lower().split())
    words = [word for word in spaced(name).lower().split() if word not in own] or [""]
    if words[0] in _TELLING - _HARDLY:
        return TELLS
    if words[0] in _SURELY or words[-1] in _SURELY:
        return CHANGES
    begins = _BEGINS.match(description)
    first = stem(begins["verb"].lower()) if begins else None
    if first in _TELLING_TERMS or words[-1] in _TELLING:
        return TELLS
    return CHANGES if first in (_CHANGING_TERMS if begins and begins["object"] else _SURELY_TERMS) else UNSAID
