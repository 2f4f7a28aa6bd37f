"""Which match of a Decision a part of the task is bound to: the likeliest one that shares its words, or none."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.index.text import field_terms, fields, stem, terms
from orchestrator.language.asides import without_asides
from orchestrator.language.corrections import corrected
from orchestrator.language.modes import TELLS, changes, done_by, own_words
from orchestrator.language.negation import split_negated
from orchestrator.language.opposites import UNDOING, ends, takes_back
from orchestrator.language.quoted import masked
from orchestrator.language.sending import in_full
from orchestrator.language.taking_away import speaks_of_taking_away, takes_away
from orchestrator.language.told import told_in, verb_of
from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word
from orchestrator.planning.arguments import extract, given_for_any
from orchestrator.planning.choices import nouns_of
from orchestrator.planning.effects import undoes
from orchestrator.planning.unasked import is_only_stated, is_unasked
from orchestrator.records.plan import PlanRequest
from orchestrator.records.tool import Match, Tool

UNNAMED = 0.7
"""The confidence that a call needs when its tool was found by meaning alone."""

_LIKELY = 2 / 3
"""The share of the confidence that a task needs which a part's tool needs as its chance: that is the tool's own, and
lower than the confidence that the best of all is right (0.28 and 0.53 where several tools review code)."""
_WEIGHTS = {"name": 3.0, "server": 2.0, "keywords": 2.0, "description": 1.0, "parameters": 0.5}
_LEAST = 0.1
"""What a match without any score counts beside one with a score of 1, where only words tell which is meant."""

_STOPPING = frozenset("halt pause stop suspend".split())


class Binder:
    """Binds parts of a task to the matches of its Decision."""

    def __init__(self, request: PlanRequest) -> None:
        decision = request.decision
        self._matches = [match for match in decision.matches if match.score > 0]
        self._tables = [term_weights(match) for match in self._matches]
        self._spread = Counter(term for table in self._tables for term in table)
        self._searched = [set(asked_in(text)) for text in decision.parts]
        self._given = request.arguments
        self.needed = _LIKELY * request.min_confidence
        """The chance that a part's tool needs."""
        self._task = corrected(decision.query)
        said = [self._task, *([request.first.task] if request.first else [])]
        self._leaves_all = not request.conversation and not any(map(speaks_of_taking_away, said))

    def best(self, text: str) -> tuple[Match, str] | None:
        """The match for a part with this text, and why; None where none shares its words or is likely enough.

        Where routing searched for the part by itself, that is the likeliest. Else it is the one that shares the most
        telling words: rare among the matches, in the name above all; where the part begins with no action, of those
        that are likely enough for the whole task. One whose required arguments all stand in the part counts double.
        None is bound to what the part does not ask for; where it tells of that as done, only one whose own verb or
        server it says; and none that changes something, where it only tells how things are.
        """
        asked = asked_in(text)
        own, tells, orders = self.searched(text), self.only_tells(text), may_act(first_word(text))
        verbs = set(terms(in_full(text))) if tells else set()
        best: tuple[float, Match, str] | None = None
        held_back = 0.0
        for match, table in zip(self._matches, self._tables, strict=True):
            says_it = not tells or verb_of(match.tool) in verbs or "explicit" in match.evidence
            unasked = is_unasked(text, match.tool, self._before(text))
            if not says_it or (unasked and not self._is_refused(text, match.tool)):
                continue
            shared = shared_terms(asked, table)
            why = f"shares {', '.join(map(repr, shared))}" if shared else "found by meaning alone"
            if own:
                worth = max((match.for_parts[place] for place in own), default=0.0) if match.for_parts else 0.0
                fits = worth >= (self.needed if shared else max(self.needed, UNNAMED))
                why = f"{worth:.0%} likely for this part; {why}"
            else:
                worth = self._telling(shared, table) * (_LEAST + match.score)
                fits = bool(shared) and (orders or match.score >= self.needed)
            if not fits:
                continue
            if (match.tool.input_schema or {}).get("required") and not lacks(match, text, self._given):
                worth *= 2
            if unasked or self.holds_back(text, match.tool):
                held_back = max(held_back, worth)
            elif best is None or worth > best[0]:
                best = (worth, match, why)
        if best is None or is_only_stated(text, best[1].tool, self._before(text)):
            return None
        if held_back > best[0] and not self.may_replace(best[1].tool, text):
            return None
        return best[1:]

    def only_tells(self, text: str) -> bool:
        """Whether a part tells of what one of the matches does, as done."""
        told = told_in(text, self._before(text))
        return any(self.refuses(text, match.tool) and told.covers(match.tool) for match in self._matches)

    def is_beside(self, text: str, tool: Tool) -> bool:
        """Whether a tool does what a part says nothing of, where that refuses what another does: "refuse his request to
        cancel order 12" refunds nothing either."""
        if done_by(tool) == TELLS or verb_of(tool) in terms(text) or self.may_replace(tool, text):
            return False
        return any(self._is_refused(text, match.tool) for match in self._matches)

    def _is_refused(self, text: str, tool: Tool) -> bool:
        """Whether a part says that what a tool changes is to stay as it is."""
        return changes(tool) and told_in(text, self._before(text)).refuses(tool)

    def refuses(self, text: str, tool: Tool) -> bool:
        """Whether a tool does what a part does not ask for."""
        return self.holds_back(text, tool) or is_unasked(text, tool, self._before(text))

    def holds_back(self, text: str, tool: Tool) -> bool:
        """Whether a tool takes something away, or does the opposite of what the part begins with."""
        return self.leaves(tool) or undoes(tool, text)

    def may_replace(self, tool: Tool, text: str) -> bool:
        """Whether a tool may be called in place of one that is held back: where it changes nothing, takes back, or has
        the verb that the part begins with; of those that end something only one whose name the part says besides."""
        verb, names = first_word(text), own_words(tool.name, tool.server)
        if done_by(tool) == TELLS or (takes_back(text) and not UNDOING.isdisjoint(names)):
            return True
        if not ends(text):
            return verb_of(tool) in terms(verb)
        if verb in _STOPPING and names[0] in _STOPPING and len(names) == 1:
            return True
        others = {*map(stem, names)} - {verb_of(tool)}
        return (verb_of(tool) in terms(verb) or takes_away(tool)) and not others.isdisjoint(terms(text))

    def leaves(self, tool: Tool) -> bool:
        """Whether the tool takes something away, and nothing in the task speaks of that."""
        return self._leaves_all and takes_away(tool)

    def _before(self, text: str) -> str:
        """What of the task stands before a part."""
        return self._task[: max(0, self._task.find(text))]

    def searched(self, text: str) -> list[int]:
        """The places in `Decision.parts` of what routing searched for by itself and this part says; and of what holds
        the rest, as "reset his key, and if that fails" does of "He can't log in. Reset his key"."""
        asked = set(asked_in(text))
        own = [place for place, said in enumerate(self._searched) if said and said <= asked]
        rest = asked.difference(*(self._searched[place] for place in own))
        return [*own, *(place for place, said in enumerate(self._searched) if own and rest and rest <= said)]

    def _telling(self, shared: Sequence[str], table: Mapping[str, float]) -> float:
        return sum(table[term] * math.log1p(len(self._tables) / self._spread[term]) for term in shared)


def asked_in(text: str) -> list[str]:
    """The terms of what a part asks for, each once; of what it quotes or waits for only where it says nothing else."""
    wanted = without_asides(in_full(split_negated(text)[0], names=()))
    return list(dict.fromkeys(terms(masked(wanted)) or terms(wanted)))


def shared_terms(asked: Sequence[str], table: Mapping[str, float]) -> list[str]:
    """The terms that are also a tool's, by weight; none where they are too few to speak of it."""
    shared = [term for term in asked if term in table]
    return shared if len(shared) > 1 or any(table[term] >= _WEIGHTS["server"] for term in shared) else []


def term_weights(match: Match) -> dict[str, float]:
    """The terms of a match's tool, each with the weight of the best field that has it."""
    weights: dict[str, float] = {}
    for name, text in fields(match.tool):
        for term in field_terms(name, text):
            weights[term] = max(weights.get(term, 0.0), _WEIGHTS.get(name, 1.0))
    return weights


def lacks(match: Match, text: str, given: Mapping[str, Any]) -> bool:
    """Whether an argument that the match's tool requires is neither in the text nor given."""
    tool = match.tool
    return bool(extract(tool.input_schema, text, given_for_any(tool, given), nouns_of(tool)).missing)
