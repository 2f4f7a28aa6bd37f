"""Taking away: whether a tool deletes, cancels or revokes something, and whether a task speaks of anything like it."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from orchestrator.language.modes import TELLS, done_by, own_words
from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word
from orchestrator.records.tool import Tool

_TAKES_AWAY = frozenset(
    """cancel close deactivate delete destroy disable drop erase purge remove revoke suspend terminate trash uninstall
    unsubscribe void wipe""".split()
)
_SURELY = frozenset("cancel deactivate delete destroy erase purge remove revoke terminate uninstall wipe".split())
_DOES_ELSE = frozenset("add create edit enable get insert update upsert".split())
_SPEAKS_OF_IT = re.compile(
    r"(?i)\b(?:abort|away|axe|ban|bin|block|burn|cancel|clean|clear|clos|complet|cut|deactivat|decommission|delet"
    r"|destroy|disabl|discard|discontinu|dismiss|dispos|ditch|done\b|down|drop|dump|eliminat|empt|end|eras|evict|exclu"
    r"|expel|expire|finish|fire|forget|free|gone|halt|kick|kill|leav|lift|lose|no longer|not need|nuke|off(?:line)?\b"
    r"|opt|out\b|over\b|phase|prune|pull|purg|quit|reject|releas|remov|replac|rescind|reset|resolv|retir|retract"
    r"|revers|revok|rid\b|rip|roll\w* back|scrap|scratch|shut|stop|strike|strip|suspend|swap|take\b.*\bfrom\b|tear"
    r"|terminat|throw|toss|trash|turn|undo|un[a-z]{4}|void|wind|wip|withdraw|wrong|zap)"
)
"""In English; a task in another language may well say it, too."""
_LONG_WORD = re.compile(r"[a-z]{5,}")
_MOST = 60
"""Words that are compared."""
_NEARLY = 0.8
"""How alike a slip and what is meant are: "cancle" and "cancel" are .83."""
_ENGLISH = re.compile(r"(?i)\b(?:the|my|our|your|to|of|for|and|this|that|it|with)\b")
"""Words of no other language that is written alike."""


def takes_away(tool: Tool) -> bool:
    """Whether a tool's name begins or ends with an action that leaves less than there was, or holds one that is no
    thing ("bulk_delete_users"), and none before it that does something else ("add_or_remove_member")."""
    words = own_words(tool.name, tool.server)
    taking = next((place for place in range(len(words)) if _is_taking(words, place)), None)
    return taking is not None and _DOES_ELSE.isdisjoint(words[:taking]) and done_by(tool) != TELLS


def _is_taking(words: Sequence[str], place: int) -> bool:
    at_an_end = place in (0, len(words) - 1)
    return words[place] in (_TAKES_AWAY if at_an_end else _SURELY)


def speaks_of_taking_away(text: str) -> bool:
    """Whether a text says anything of that kind, be it misspelt, or is not surely English."""
    if _SPEAKS_OF_IT.search(text) or not (may_act(first_word(text)) or (text.isascii() and _ENGLISH.search(text))):
        return True
    return any(get_close_matches(word, _TAKES_AWAY, 1, _NEARLY) for word in _LONG_WORD.findall(text.lower())[:_MOST])
