"""Forbidden tools: those whose name says just what a task forbids ("without creating an issue": `create_issue`).

To leave its words unread is not enough where what is asked speaks of the same things ("..., search jira for bugs"). A
tool is left out only where nothing else is said of the action: "don't delete all projects" may ask for fewer.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.index.text import spaced, stem, terms, terms_and_words
from orchestrator.index.variants import words_of
from orchestrator.language.verbs import ACTIONS, ACTIONS_OR_THINGS
from orchestrator.language.without import ANOTHER
from orchestrator.records.tool import Tool

_BESIDE = frozenset(
    terms(
        "avoid refrain bother instead rather never without make sure careful take care under circumstances want new"
        " anyone anybody anything anywhere yet now"
    )
)
"""Words that say no more than that the action is forbidden."""
_NARROWED = re.compile(r"(?i)\b(?:all|every|each|both|more|most|too|other|another|same|again|only|just|until)\b")
_ANOTHER = re.compile(rf"(?i)(?:not|instead of|rather than)\s{ANOTHER}\s")
"""Before a thing that nothing of what is asked is to be done to: "create a task, not an issue"."""
ACTION_TERMS = frozenset(map(stem, ACTIONS))
_DONE = ACTION_TERMS | frozenset(map(stem, ACTIONS_OR_THINGS))


def forbidden_tools(
    forbidden: Sequence[str], asked: str, tools: Sequence[Tool], named: Callable[[str], Iterable[int]]
) -> Mapping[int, str]:
    """The positions of the tools that do what a task forbids, each with the words that forbid it.

    asked: what the task asks for, with whose actions no tool is left out. named: the tools whose name or server holds a
    term.
    """
    if not forbidden:
        return {}
    found: dict[int, str] = {}
    wanted = _spelt_out(asked)
    for said in forbidden:
        own = _spelt_out(said) - _BESIDE
        if _NARROWED.search(said) or own & wanted & ACTION_TERMS:
            continue
        if _ANOTHER.match(said):
            whole, done = own, own | (wanted & ACTION_TERMS)
        elif own <= _DONE:  # To what is spoken of: "draft the invoice, don't send it".
            whole, done = frozenset(), own | (wanted - ACTION_TERMS)
        else:
            whole = done = own
        near = {position for term in own for position in named(term)}
        found |= {position: said for position in near if _is_said_by(whole, done, wanted, tools[position])}
    return found


def _is_said_by(whole: frozenset[str], done: frozenset[str], wanted: frozenset[str], tool: Tool) -> bool:
    """Whether the name, of several words, is what shall not be done and not what shall, and it says the whole of it."""
    name = _spelt_out(spaced(tool.name))
    return len(name) > 1 and name <= done and not name <= wanted and whole <= name | _spelt_out(tool.server)


def _spelt_out(text: str) -> frozenset[str]:
    """The text's terms, an acronym's only those of its words: "a PR" and "a pull request" are one thing to forbid."""
    return frozenset(term for term, word in terms_and_words(text) if not words_of(word))
