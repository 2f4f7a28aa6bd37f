"""Told deeds: what a text only tells of, by the verb of the tool that would do it.

"Order 12 was cancelled, refund ch_3" cancels nothing, and neither does "tell Ana I cancelled the meeting".
"""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache

from orchestrator.index.text import spaced, stem, terms
from orchestrator.language.asides import asides, without_asides
from orchestrator.language.mentioned import is_mentioned, stays_undone
from orchestrator.language.modes import CHANGING, CHANGING_TERMS, own_words
from orchestrator.language.reports import Span, handed_on, questions, reasons
from orchestrator.language.verbs import ACTIONS
from orchestrator.language.words import WORD, words_in
from orchestrator.records.tool import Tool

_MOST = 8
"""Places of a verb that are looked at; a verb with more is taken to be asked for."""


class Told:
    """The verbs of changing in a text, and which of them it only tells of. Read once, and asked of many tools.

    before: what stands before the text, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """

    def __init__(self, text: str, before: str = "") -> None:
        self._text = text
        self._named: dict[str, list[int]] = {}
        """Where each verb stands that is more than mentioned."""
        self._refused: set[str] = set()
        if not any(stem(word) in CHANGING_TERMS for word in words_in(text)):
            return
        words = ((stem(word.group().lower()), word) for word in WORD.finditer(text))
        deeds = [(verb, word) for verb, word in words if verb in CHANGING_TERMS]
        often = Counter(verb for verb, _ in deeds)
        for verb, word in deeds:
            if often[verb] > _MOST:
                continue
            places = self._named.setdefault(verb, [])
            if not is_mentioned(text, word, before):
                places.append(word.start())
            elif stays_undone(text, word):
                self._refused.add(verb)

    @cached_property
    def verbs(self) -> frozenset[str]:
        """The stems of those that it may only tell of; `covers` knows for which tools."""
        return frozenset(verb for verb, places in self._named.items() if not places or self._beside(places, self._all))

    def refuses(self, tool: Tool) -> bool:
        """Whether the text says that what a tool does is to stay undone, and asks for it nowhere."""
        verb = verb_of(tool)
        return verb in self._refused and not self._named[verb]

    def covers(self, tool: Tool) -> bool:
        """Whether the text has the verb of a tool, and only mentions what it does, or has it in what somebody is told
        or is to do, or in a reason."""
        verb = verb_of(tool)
        if verb not in self.verbs:
            return False
        if not (places := self._named[verb]):
            return True
        beside = [*self._reasons, *self._questions]
        if self._asked.isdisjoint(set(terms(spaced(tool.name))) - {verb}):
            beside += self._asides
        if self._handed_on and self._said.isdisjoint(terms(spaced(tool.server))):
            own = set(terms(spaced(tool.name)))
            beside += [span for name, span in self._handed_on if own.isdisjoint(terms(name))]
        return self._beside(places, beside)

    @staticmethod
    def _beside(places: Iterable[int], spans: Iterable[Span]) -> bool:
        return all(any(start <= place < end for start, end in spans) for place in places)

    @cached_property
    def _asides(self) -> list[Span]:
        return asides(self._text)

    @cached_property
    def _reasons(self) -> list[Span]:
        return reasons(self._text)

    @cached_property
    def _handed_on(self) -> tuple[tuple[str, Span], ...]:
        return handed_on(self._text)

    @cached_property
    def _questions(self) -> tuple[Span, ...]:
        return questions(self._text)

    @cached_property
    def _all(self) -> list[Span]:
        return [*self._asides, *self._reasons, *self._questions, *(span for _, span in self._handed_on)]

    @cached_property
    def _asked(self) -> frozenset[str]:
        return frozenset(terms(without_asides(self._text)))

    @cached_property
    def _said(self) -> frozenset[str]:
        return frozenset(terms(self._text))


NOTHING_TOLD = Told("")


@lru_cache(maxsize=32)  # A part of a task is asked about for each match of its Decision.
def told_in(text: str, before: str = "") -> Told:
    """What the text only tells of."""
    return Told(text, before)


def verb_of(tool: Tool) -> str:
    """The stem of the verb that a tool's name begins or ends with; "" where neither changes anything."""
    words = own_words(tool.name, tool.server)
    if words[0] in CHANGING:
        return stem(words[0])
    return stem(words[-1]) if words[-1] in CHANGING & ACTIONS else ""
