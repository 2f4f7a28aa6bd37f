"""Forbidden tools: those whose name says just what a task forbids ("without creating an issue": `create_issue`).

To leave its words unread is not enough where what is asked speaks of the same things ("..., search jira for bugs"). A
tool is left out only where nothing else is said of the action: "don't delete all projects" may ask for fewer.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.everyday import ACTIONS
from orchestrator.models import Tool
from orchestrator.text import spaced, stem, terms

_BESIDE = frozenset(
    terms(
        "avoid refrain bother instead rather never without make sure careful take care under circumstances want new"
        " anyone anybody anything anywhere"
    )
)
"""Words that say no more than that the action is forbidden."""
_NARROWED = re.compile(r"(?i)\b(?:all|every|each|both|more|most|too|other|another|same|again|only|just|yet|until)\b")
_ACTIONS = frozenset(map(stem, ACTIONS))


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
    wanted = _ACTIONS.intersection(terms(asked))
    for said in forbidden:
        own = set(terms(said)) - _BESIDE
        if _NARROWED.search(said) or own & wanted:
            continue
        near = {position for term in own for position in named(term)}
        found |= {position: said for position in near if _is_said_by(own, tools[position])}
    return found


def _is_said_by(own: set[str], tool: Tool) -> bool:
    """Whether these terms are the tool's name of several words, and perhaps its server's name."""
    name = set(terms(spaced(tool.name)))
    return len(name) > 1 and name <= own <= name | set(terms(tool.server))
