"""What a call would do otherwise than the text says, where an optional argument is left out: "refund half of it" would
refund it all, "resume the campaign" pause it again. Only of tools that change something.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from orchestrator.catalogue.schema import usable
from orchestrator.index.text import spaced, stem, terms
from orchestrator.language.modes import TELLS, changes, done_by, own_words
from orchestrator.language.opposites import (
    ENDING,
    MAKING,
    TURNS,
    UNDOING,
    ends,
    opposites,
    takes_back,
    turned,
    undone_by,
)
from orchestrator.language.told import verb_of
from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word
from orchestrator.planning.choices import choice_values
from orchestrator.planning.parameters import Parameter, parameters_of
from orchestrator.records.tool import Tool

_AMOUNTS = frozenset(("amount", "sum"))
_MONEY = (
    r"(?:[€$£¥]\s?\d[\d.,]*|\b(?:eur|usd|gbp)\s?\d[\d.,]*"
    r"|\d\s?(?:[€$£¥%]|(?:eur(?:os?)?|usd|gbp|dollars?|bucks|pounds?|francs?|cents?|percent)\b))"
)
_SAYS_HOW_MUCH = re.compile(
    rf"(?i){_MONEY}|\b(?:euros|dollars|bucks|cents|percent)\b"
    r"|\b(?:half|partial(?:ly)?|partly|(?:a|one) (?:third|quarter|part)|(?:most|part|some) of|all but|except|minus"
    r"|(?:just|only) (?:some|the))\b"
    r"|\b[a-z]+ \d+(?:[.,]\d+)? (?:of|from|off)\b"
)
_IN_FULL = re.compile(
    r"(?is)\A(?!.*(?:n['’]t|\b(?:but|half|instead|just|never|no|not|only|part|rather|than))\b).*\bin full\b"
)
_TELLS_MONEY = re.compile(
    rf"(?i),\s(?:the (?:buyer|client|customer|guest)|s?he|they) paid\s[\d.,]*{_MONEY}(?=\s*(?:[.,;!?)]|\Z))"
)
"""What was paid, and not what is to be paid: "refund it, the customer paid $20"."""
_UPDATES = frozenset("change edit modify patch update".split())
_BACK = UNDOING | {"back"}
_ENDING, _MAKING = frozenset(map(stem, ENDING - {"end"})), frozenset(map(stem, MAKING))
_BESIDES = re.compile(r"(?i)(?:[,;:&/]|\b(?:and|by|or|then|to))\s(?:\w+ly\s)?(?P<deed>[a-z]+)")
"""A deed beside the one that a text begins with: "and send", "by sending"."""
_SAID_FOR = dict.fromkeys("email mail message text".split(), "send")
_BY_MEANS = re.compile(r"(?i)\b(?:by|with|via|using|through)\s(?:(?:an?|the|my|our|this)\s)?(?P<means>[a-z]+)")
_MEANS = frozenset("change command form query script transaction".split())
"""What may end as well as make something: `run_query`, `submit_order_change`."""
_MAKES = frozenset("add create deploy insert make open post publish release send upload".split())
_BY_VERB = {
    **dict.fromkeys("close complete finish reopen resolve start".split(), ("state", "status")),
    "rename": ("name", "title"),
    **dict.fromkeys(("move", "postpone", "reschedule"), ("start", "date", "due", "time", "when")),
    **dict.fromkeys(("assign", "reassign"), ("assignee", "owner")),
}
"""What a tool that updates a thing is to be given, by what is to be done with that."""


def flags(tool: Tool, text: str) -> dict[str, bool]:
    """The switches that the text sets by its verb: "resume it" sets `paused` to false, "unlock it" `unlock` to true."""
    verb, turn = first_word(text), turned(text)
    found: dict[str, bool] = {}
    for own in parameters_of(usable(tool.input_schema or {})).values() if changes(tool) else ():
        if own.schema.get("type") == "boolean" and not {"enum", "const"} & own.schema.keys() and len(own.stems) == 1:
            if own.stems[0] == turn or (verb.isascii() and own.stems[0] == stem(verb)):
                found[own.name] = True
            elif own.stems[0] == TURNS.get(turn) or own.stems[0] in opposites(verb):
                found[own.name] = False
    return found


def undoes(tool: Tool, text: str) -> bool:
    """Whether a tool does the opposite of what a part of a task begins with, and has nothing to turn it round."""
    verb, turn = first_word(text), turned(text)
    names = own_words(tool.name, tool.server)
    if takes_back(text) and _does_again(tool, text):
        return done_by(tool) != TELLS
    if turn not in names and TURNS.get(turn) in names:
        return done_by(tool) != TELLS and not flags(tool, text)
    if _begins_it(tool, text):
        return True
    against = opposites(verb)
    if (
        not against
        or done_by(tool) == TELLS
        or against.isdisjoint(map(stem, names))
        or stem(verb) in terms(" ".join(names))
    ):
        return False
    said = frozenset(terms(f"{tool.description} {_said_of(tool)}"))
    return not flags(tool, text) and stem(verb) not in said


def _begins_it(tool: Tool, text: str) -> bool:
    """Whether a tool only brings about what a text wants ended, and nothing besides has it do so: for "cancel my leave"
    `request_leave`, but not for "cancel it by sending a mail" `send_email`."""
    verb, names = first_word(text), own_words(tool.name, tool.server)
    own = stem(names[0] if may_act(names[0]) else first_word(tool.description))
    others, said = {*map(stem, names[1:])}, {*terms(text)}
    if not (own in _MAKING and ends(text)) and own != (undone_by(verb) or None):
        return False
    if (len(names) > 1 and own not in said and others.isdisjoint(said)) or not _MEANS.isdisjoint(names[-1:]):
        return False
    deeds = {stem(_SAID_FOR.get(said, said)) for said in (word["deed"].lower() for word in _BESIDES.finditer(text))}
    means = (stem(word["means"].lower()) for word in _BY_MEANS.finditer(text))
    if own in deeds or not others.isdisjoint(means):
        return False
    return {*_ENDING, stem(verb)}.isdisjoint(terms(f"{spaced(tool.name)} {tool.description} {_said_of(tool)}"))


def _does_again(tool: Tool, text: str) -> bool:
    """Whether a tool would do anew what a text wants taken back: by its verb, or as it makes something."""
    names = own_words(tool.name, tool.server)
    if not _BACK.isdisjoint(names) or not _BACK.isdisjoint(tool.description.lower().split()):
        return False
    return names[0] in _MAKES or verb_of(tool) in terms(text)


def unread(tool: Tool, text: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The optional parameter that the text speaks of and that has no value, at most one: its value is asked for."""
    if not changes(tool):
        return ()
    known = parameters_of(usable(tool.input_schema or {}))
    given = [known[name] for name in values if name in known]
    left = (own for own in known.values() if not own.required and own.name not in values)
    return tuple(islice((own.name for own in left if _is_spoken_of(own, tool, text, given)), 1))


def _is_spoken_of(own: Parameter, tool: Tool, text: str, given: list[Parameter]) -> bool:
    kind = own.schema.get("type")
    if not _AMOUNTS.isdisjoint(own.words):
        says = _SAYS_HOW_MUCH.search(_TELLS_MONEY.sub("", text))
        return kind != "boolean" and bool(says) and not _IN_FULL.search(text)
    if kind not in ("string", None):
        return False
    verb = own_words(tool.name, tool.server)[0]
    if verb in _UPDATES and all(other.identifies for other in given):
        words = [word for word in own.words if word not in ("id", "name")]
        return not {own.words[-1], *words[-1:]}.isdisjoint(_BY_VERB.get(first_word(text), ()))
    whom = len(verb) > 3 and own.words[0].startswith(verb) and own.words[0] != verb
    return whom and "default" not in own.schema and stem(verb) in terms(text)


def _said_of(tool: Tool) -> str:
    """The names, listed values and descriptions of a tool's parameters."""
    schemas = (tool.input_schema or {}).get("properties")
    if not isinstance(schemas, dict):
        return ""
    described = ((name, own) for name, own in schemas.items() if isinstance(own, dict))
    return " ".join(
        f"{spaced(name)} {' '.join(choice_values(own))} {own.get('description')}" for name, own in described
    )
