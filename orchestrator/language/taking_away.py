"""Taking away: whether a tool deletes, cancels or revokes something, and whether a task speaks of anything like it."""

import re
from difflib import get_close_matches

from orchestrator.language.clauses import first_word
from orchestrator.language.everyday import may_act
from orchestrator.models import Tool
from orchestrator.text import spaced

_TAKES_AWAY = frozenset(
    """cancel close deactivate delete destroy disable drop erase purge remove revoke suspend terminate trash uninstall
    unsubscribe void wipe""".split()
)
_SPEAKS_OF_IT = re.compile(
    r"(?i)\b(?:abort|away|axe|ban|bin|block|burn|cancel|clean|clear|clos|cut|deactivat|decommission|delet|destroy"
    r"|disabl|discard|discontinu|dismiss|dispos|ditch|done with|down|drop|dump|eliminat|empt|end|eras|evict|expel"
    r"|expire|finish|fire|forget|free|gone|halt|kick|kill|leav|lift|lose|no longer|not need|nuke|off\b|opt|out\b"
    r"|over\b|phase|prune|pull|purg|quit|reject|releas|remov|replac|reset|resolv|retir|retract|revers|revok|rid\b|rip"
    r"|scrap|scratch|shut|stop|strike|strip|suspend|swap|tear|terminat|throw|toss|trash|turn|un[a-z]{4}|void|wind|wip|withdraw|wrong"
    r"|zap)"
)
"""In English; a task in another language may well say it, too."""
_LONG_WORD = re.compile(r"[a-z]{5,}")
_MOST = 60
"""Words that are compared."""
_NEARLY = 0.8
"""How alike a slip and what is meant are: "cancle" and "cancel" are .83."""
_ENGLISH = re.compile(r"(?i)\b(?:the|a|an|my|our|me|to|of|for|in|on|and|this|that|is|it)\b")


def takes_away(tool: Tool) -> bool:
    """Whether a tool's name begins or ends with an action that leaves less than there was."""
    words = spaced(tool.name).lower().split() or [""]
    return words[0] in _TAKES_AWAY or words[-1] in _TAKES_AWAY


def speaks_of_taking_away(text: str) -> bool:
    """Whether a text says anything of that kind, be it misspelt, or is not surely English."""
    if _SPEAKS_OF_IT.search(text) or not (may_act(first_word(text)) or (text.isascii() and _ENGLISH.search(text))):
        return True
    return any(get_close_matches(word, _TAKES_AWAY, 1, _NEARLY) for word in _LONG_WORD.findall(text.lower())[:_MOST])
