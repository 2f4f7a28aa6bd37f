"""Which parts of a task become one step: a seam between two may be none, one may only tell of another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.catalogue.schema import usable
from orchestrator.index.text import split_words, stemmed
from orchestrator.language.modes import UNSAID, done_by
from orchestrator.language.statements import only_states
from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word
from orchestrator.planning.binding import lacks
from orchestrator.planning.parameters import parameters_of
from orchestrator.planning.pieces import pieces
from orchestrator.planning.pointing import LINKS, stands_beside
from orchestrator.planning.seams import Part
from orchestrator.records.tool import Match, Tool


@dataclass(frozen=True, slots=True)
class Bound:
    """A part of the task and the match that it is bound to, None when none fits. `alone`: routing, too, took it for a
    task of its own. `order`: the text in it that orders, where others only tell how things are."""

    part: Part
    match: Match | None
    why: str
    alone: bool = False
    order: str = ""


def merge_weak(bound: Sequence[Bound]) -> list[Bound]:
    """A bare "and" or comma cuts between two different tools, between two tasks that routing took apart, or where one
    call could not take both sides; not before a value for the tool of the part before (", due 2026-04-30")."""
    merged: list[Bound] = []
    for item in bound:
        last = merged[-1] if merged else None
        if last is not None and not item.part.strong and _lists_on(item.part, last.part):
            item = replace(item, match=None, alone=False)
        if last is None or item.part.strong:
            merged.append(item)
        elif last.match is not None and _gives_value(last.match.tool, item.part, item.match):
            merged[-1] = replace(last, part=last.part.joined(item.part))
        elif _two_tasks(last, item):
            merged.append(item)
        elif _apart(last, item):
            merged.append(replace(item, match=last.match, why=last.why))
        elif last.match is None or item.match in (None, last.match) or not _orders(last, item):
            alone, match = last.alone or item.alone, last.match or item.match
            merged[-1] = replace(last, part=last.part.joined(item.part), match=match, alone=alone)
        else:
            merged.append(item)
    return merged


def merge_told(bound: Sequence[Bound]) -> list[Bound]:
    """What only tells how things are, and the order beside it, as one step with the tool of the order: "The api is
    stuck. Restart it." restarts once, and "Jane resigned. Deactivate her account" does nothing else for the first."""
    merged: list[Bound] = []
    waiting: list[Bound] = []
    before = ""
    for item in bound:
        is_reason = _is_reason(item, f"{before}{item.part.seam}")
        before = f"{before}{item.part.seam}{item.part.text}"
        if is_reason:
            waiting.append(item)
        elif item.match is None:
            merged, waiting = [*merged, *waiting, item], []
        else:
            merged.append(replace(item, part=_in_one([*waiting, item]), order=item.part.text if waiting else ""))
            waiting = []
    if waiting and merged and merged[-1].match is not None:
        last = merged[-1]
        merged[-1] = replace(last, part=_in_one([last, *waiting]), order=last.order or last.part.text)
        return merged
    return [*merged, *waiting]


def _is_reason(item: Bound, before: str) -> bool:
    """Whether a part only tells how things are, and no tool but one that changes something is found for it: joined to
    a half with such a tool it may still only tell ("I'm home and about to delete a.txt")."""
    return (item.match is None or done_by(item.match.tool) < UNSAID) and only_states(item.part.text, before)


def _orders(last: Bound, item: Bound) -> bool:
    """Whether a part may order something of its own: with a verb, or as a wish of the part before ("make sure 12 is
    cancelled" and "13 is refunded")."""
    said = item.part.text
    return item.part.imperative or (only_states(said) and not only_states(said, last.part.text))


def _in_one(bound: Sequence[Bound]) -> Part:
    first, *others = (item.part for item in bound)
    for part in others:
        first = first.joined(part)
    return first


def _two_tasks(last: Bound, item: Bound) -> bool:
    """Whether routing took both for tasks of their own and no one match serves both."""
    return last.alone and item.alone and (item.match is None or item.match != last.match)


def _apart(last: Bound, item: Bound) -> bool:
    """Whether the same tool can be called for each side alone, but not for both at once: "in UTC and in Asia/Tokyo"."""
    if last.match is None or (item.part.imperative and item.match not in (None, last.match)):
        return False
    if not (last.match.tool.input_schema or {}).get("required"):
        return False
    alone = (item.part.text, last.part.text)  # The shorter first: what is joined grows with the task.
    if any(lacks(last.match, text, {}) for text in alone):
        return False
    return lacks(last.match, last.part.joined(item.part).text, {})


def _gives_value(tool: Tool, part: Part, own: Match | None) -> bool:
    """Whether a part begins with a parameter of this tool and its value: "due 2026-04-30", "role 'dev'".

    Behind "and", and before more words, what may be an action is one where the part has a match of its own: "and email
    ann@example.org".
    """
    first = next(iter(pieces(part.text)), None)
    said = [stemmed(word) for word in split_words(part.text[: first.start])] if first else []
    if first is None or not said:
        return False
    parameters = list(parameters_of(usable(tool.input_schema or {})).values())
    named = [
        each
        for each in parameters
        if set(said) <= {*each.stems, *LINKS}
        and each.may_read(first)
        and stands_beside(each, first, [other for other in parameters if other is not each])
    ]
    acts = own is not None and may_act(first_word(part.text)) and ("and" in part.seam or bool(first.behind))
    return any(not acts or len(each.stems) == len(said) > 1 for each in named)


def _lists_on(part: Part, before: Part) -> bool:
    """Whether a part begins with a value, as the one before ends: 'receipts "r1" and "r2" for Ann'."""
    first = next(iter(pieces(part.text)), None)
    if first is None or first.start:
        return False
    last = next(reversed(pieces(before.text)), None)
    return last is not None and last.end == len(before.text)
